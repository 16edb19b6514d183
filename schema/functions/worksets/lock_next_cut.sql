-- The position up to which an application's table is cut into parts: null if another session is cutting.
create or replace function txqueue.lock_next_cut(its_name text, out is_cut boolean, out cut_to text)
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
begin
    if lock_workset('cut ' || its_name, false) then
        select workset.is_cut, workset.cut_to into is_cut, cut_to from workset where name = its_name;
    end if;
end $$;
