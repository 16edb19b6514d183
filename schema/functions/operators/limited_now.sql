-- How many more jobs the limits and rates of queues and tenants let start now, by kind and key.
create or replace function txqueue.limited_now() returns jsonb
language plpgsql volatile
set search_path = txqueue, pg_temp
set jit = off
as $$
begin
    if not exists (select from control where kind <> 'group' and (concurrency is not null or rate is not null)) then
        return '{}';
    end if;
    return coalesce((
        with running as (
            select 'queue' as kind, queue as key, count(*) as jobs from job_assigned where counted is not null group by queue
            union all
            select 'tenant', tenant, count(*) from job_assigned where tenant is not null group by tenant),
        allowed as (
            select kind, jsonb_object_agg(key, greatest(0, least(concurrency - coalesce(running.jobs, 0), bucket.jobs))) as keys
              from control left join running using (kind, key)
              left join lateral (select * from bucket_level(control) where control.rate is not null offset 0) as bucket on true
             where kind <> 'group' and (concurrency is not null or rate is not null)
             group by kind)
        select jsonb_object_agg(kind, keys) from allowed), '{}');
end $$;
