-- Moves jobs, each of an assignment of its own, from one assigned lane to history, for complete(): with one
-- statement for all. results has for each job an object by number, or null. One function per lane, so that its
-- plan is kept; the plan is pinned, as in complete_in().
create or replace function txqueue.complete_each_0(
    its_incarnation integer, assignments bigint[], ids bigint[], results text[],
    out done bigint[], out groups text[], out limited integer, out followed bigint[])
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
    with gone as (
        delete from job_assigned_0 as job
         using unnest(ids, assignments, results) as each (job_id, assignment, result)
         where job.job_id = each.job_id and job.assignment = each.assignment and job.incarnation = its_incarnation
        returning job.*, each.result::jsonb -> each.job_id::text as its_result
    ), put as (
        insert into job_done (job_id, rank, not_before, not_after, enqueued_at, assigned_at, started_at,
            finished_at, assignment, node_id, incarnation, weight, priority, attempt, deaths, lane, state,
            work_type, queue, "group", tenant, options, payload, error, result, followed)
        select job_id, rank, not_before, not_after, enqueued_at, assigned_at, started_at,
            clock_timestamp(), assignment, node_id, incarnation, weight, priority, least(attempt + 1, 32767), deaths, lane, 'done',
            work_type, queue, "group", tenant, options, payload, error, its_result, gone.followed
          from gone
    )
    select coalesce(array_agg(job_id), '{}'), array_agg("group") filter (where "group" is not null), count(counted),
           array_agg(job_id) filter (where gone.followed is not null)
      into done, groups, limited, followed from gone;
end $$;
