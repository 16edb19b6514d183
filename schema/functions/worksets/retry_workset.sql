-- Retries all failed items of a workset, with all attempts. Returns how many.
create or replace function txqueue.retry_workset(its_name text) returns bigint
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    its   workset;
    total bigint;
begin
    select * into its from workset where name = its_name for update;
    if not found then
        perform refuse(format('there is no workset %s', its_name), 'see: txqueue worksets');
    end if;
    with gone as (
        delete from workset_failed where workset_id = its.workset_id returning *
    ), numbered as (
        select gone.*, row_number() over (partition by origin order by key) as place from gone
    ), put as (
        insert into workset_part (workset_id, origin, keys, items)
        select its.workset_id, origin, array_agg(key), count(*)
          from numbered group by origin, (place - 1) / its.batch
    )
    select count(*) into total from gone;
    update workset set failed = failed - total where workset_id = its.workset_id;
    if its.is_started then
        perform fill_slots(its.workset_id);
    end if;
    return total;
end $$;
