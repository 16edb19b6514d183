-- How many more jobs of each group may run now (slots): its limit, which an operator set or its type declares,
-- minus its running jobs and those that hold their place from a wait to the end of the next run (holders). 0 while a group is paused or its rate is used up; paid_in then has the seconds until the
-- next token. A paused group has no holders, as none of its jobs may go on. Without work_types, the type of the oldest parked job counts, whose position is (oldest_rank, oldest_job).
--
-- Also returns where the group's jobs begin, as note_fronts() has noted it: (rank, job_id) for the parked ones,
-- (ready_rank, ready_job) for the ready ones, assignment for the running ones; before all of them if that is not known.
-- place is the row of the note; is_stale if it should be renewed. The caller holds the groups' locks.
create or replace function txqueue.group_slots(groups text[], work_types text[] default null) returns setof txqueue.group_slot
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    moment constant timestamptz := clock_timestamp();
begin
    return query
    select its.name,
           case when control.is_paused then 0
                else greatest(0, least(coalesce(control.concurrency, (policy ->> 'group_limit')::double precision, 1) - running.jobs
                    - coalesce(cardinality(hold.jobs), 0), bucket.jobs, 1e6))::integer
           end,
           case when not control.is_paused then bucket.opens_in end,
           start.rank, start.job_id,
           case when note.is_looked then start.rank else '-infinity' end, case when note.is_looked then start.job_id else 0 end,
           start.assignment, case when note.is_looked then note.looked_at end, note.place,
           not note.is_looked, oldest.rank, oldest.job_id, case when control.is_paused is not true then hold.jobs end
      from unnest(groups, work_types) as its (name, work_type)
      left join lateral (
            -- No older note is trusted, as it may be from before a failover. A job that becomes ready before the
            -- position may be overlooked for a second by claims that do not take it.
            select ctid as place, *, moment - noted_at between interval '0' and interval '10 seconds' as is_valid,
                   moment - looked_at between interval '0' and interval '1 second' as is_looked
              from group_front where "group" = its.name
             -- The last row first, so that it does not matter how many former ones a snapshot keeps.
             order by number desc limit 1) as note on true
     cross join lateral (
            select case when note.is_valid then note.rank else '-infinity' end as rank,
                   case when note.is_valid then note.job_id else 0 end as job_id,
                   case when note.is_valid then note.assignment else 0 end as assignment) as start
      left join lateral (
            select rank, job_id, work_type from job_waiting
             where work_types is null and waiting_for = 'group' and "group" = its.name and (rank, job_id) >= (start.rank, start.job_id)
             order by rank, job_id limit 1) as oldest on true
      left join control on kind = 'group' and key = its.name
      left join work_type on work_type.work_type = coalesce(its.work_type, oldest.work_type)
     cross join lateral (select array_agg(job_id) as jobs from group_hold where "group" = its.name) as hold
     cross join lateral (
            select count(*) as jobs from job_assigned
             where "group" = its.name and assignment >= start.assignment and (job_id = any (hold.jobs)) is not true) as running
      -- Because of offset 0, the function is called only for a group with a rate.
      left join lateral (select * from bucket_level(control) where control.rate is not null offset 0) as bucket on true;
end $$;
