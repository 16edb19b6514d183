-- Refuses items for a pool that holds as many as it may.
create or replace function txqueue.refuse_pool(its_name text, bound bigint) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    raise exception using errcode = 'TXQ02', message = format('the pool %s is full: at most %s items may remain in it', its_name, bound),
        hint = 'fill it again later, or give its class a larger bound';
end $$;
