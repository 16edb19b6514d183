-- Refuses items for a workset that has reached its bound.
create or replace function txqueue.refuse_workset(its_name text, bound bigint) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    raise exception using errcode = 'TXQ02', message = format('the workset %s is full: at most %s items may remain in it', its_name, bound),
        hint = 'fill it again later, or give its class a larger bound';
end $$;
