-- Has all failed items of a pool tried again, from their first attempt. Returns how many.
create or replace function txqueue.retry_pool(its_name text) returns bigint
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
as $$
declare
    its   pool;
    total bigint;
begin
    select * into its from pool where name = its_name for update;
    if not found then
        perform refuse(format('there is no pool %s', its_name), 'see: txqueue pools');
    end if;
    with gone as (
        delete from pool_failed where pool_id = its.pool_id returning *
    ), numbered as (
        select gone.*, row_number() over (partition by origin order by key) as place from gone
    ), put as (
        insert into pool_part (pool_id, origin, keys, items)
        select its.pool_id, origin, array_agg(key), count(*)
          from numbered group by origin, (place - 1) / its.batch
    )
    select count(*) into total from gone;
    update pool set failed = failed - total where pool_id = its.pool_id;
    if its.is_started then
        perform fill_slots(its.pool_id);
    end if;
    return total;
end $$;
