-- Moves jobs of one assignment from one assigned lane to history, with the results by number. One function
-- per lane, so that its plan is kept; the plan is pinned, as the planner must not scan the table for each
-- number.
create or replace function txqueue.complete_in_0(
    its_incarnation integer, its_assignment bigint, ids bigint[], results jsonb,
    out jobs integer, out groups text[], out limited integer, out followed bigint[])
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    with gone as (
        delete from job_assigned_0
         where job_id = any (ids) and assignment = its_assignment and incarnation = its_incarnation
        returning *
    ), put as (
        insert into job_done (job_id, rank, not_before, not_after, enqueued_at, assigned_at, started_at,
            finished_at, assignment, node_id, incarnation, weight, priority, attempt, deaths, lane, state,
            work_type, queue, "group", tenant, options, payload, error, result, followed)
        select job_id, rank, not_before, not_after, enqueued_at, assigned_at, started_at,
            clock_timestamp(), assignment, node_id, incarnation, weight, priority, least(attempt + 1, 32767), deaths, lane, 'done',
            work_type, queue, "group", tenant, options, payload, error, results -> job_id::text, gone.followed
          from gone
    )
    select count(*), array_agg("group") filter (where "group" is not null), count(counted),
           array_agg(job_id) filter (where gone.followed is not null)
      into jobs, groups, limited, followed from gone;
end $$;
