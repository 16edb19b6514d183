-- Has a pool worked through from now on; of an application's table that has been, from its beginning.
-- Says how many items are to be expected of it. Returns how many jobs were enqueued.
create or replace function txqueue.start_pool(its_name text, its_items bigint default null) returns integer
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
as $$
declare
    its pool;
begin
    select * into its from pool where name = its_name;
    if its.source is not null or not its.is_started then
        select * into its from pool where name = its_name for update;
    end if;
    if not found then
        perform refuse(format('there is no pool %s', its_name), 'start it from Python, with the class of its items');
    end if;
    if its.source is not null and (its.is_cut or not its.is_started)
       and not exists (select from pool_part where pool_id = its.pool_id) then
        delete from pool_failed where pool_id = its.pool_id;
        update pool_slot set done = 0, failed = 0 where pool_id = its.pool_id;
        update pool set is_cut = false, cut_to = null, done = 0, failed = 0, expected = coalesce(its_items, 0)
         where pool_id = its.pool_id;
    end if;
    update pool set is_started = true where pool_id = its.pool_id and not is_started;
    return fill_slots(its.pool_id);
end $$;
