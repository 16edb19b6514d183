-- Which keys of an application's table come next into parts: null if another session is about to say.
create or replace function @schema@.cut_from(its_name text, out is_cut boolean, out cut_to text)
language plpgsql volatile security definer
set search_path = @schema@, pg_temp
as $$
begin
    if pg_try_advisory_xact_lock(hashtextextended('@schema@ cut pool ' || its_name, 839)) then
        select pool.is_cut, pool.cut_to into is_cut, cut_to from pool where name = its_name;
    end if;
end $$;
