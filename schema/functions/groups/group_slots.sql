-- How many more jobs of each group may run now: its limit, which an operator set or its type declares, minus
-- its running jobs. 0 while a group is paused or its rate is used up; paid_in then has the seconds until the
-- next token. The caller holds the groups' locks.
create or replace function txqueue.group_slots(groups text[], work_types text[])
returns table (name text, slots integer, paid_in double precision)
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    return query
    select its.name,
           case when control.is_paused then 0
                else greatest(0, least(coalesce(control.concurrency, (policy ->> 'group_limit')::integer, 1) - running.jobs, bucket.jobs))::integer
           end,
           case when not control.is_paused then bucket.opens_in end
      from unnest(groups, work_types) as its (name, work_type)
      left join control on kind = 'group' and key = its.name
      left join work_type on work_type.work_type = its.work_type
     cross join lateral (select count(*) as jobs from job_assigned where "group" = its.name) as running
      -- Because of offset 0, the function is called only for a group with a rate.
      left join lateral (select * from bucket_level(control) where control.rate is not null offset 0) as bucket on true;
end $$;
