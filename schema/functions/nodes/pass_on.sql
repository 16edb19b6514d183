-- Passes jobs of a node's assignments on to another live node that serves their queues and types: all that
-- were not noted as started, or only those named by number. They get new assignments, about which a message
-- notifies the other node, enough per lane that each of its workers gets a part. Suspects stay, as they must
-- run alone, which a claim arranges. Returns one row per assignment. Other jobs still belong to the first
-- node.
create or replace function txqueue.pass_on(
    its_incarnation integer, assignments bigint[], ids bigint[], to_incarnation integer, parts integer default 1)
returns table (assignment bigint, jobs integer, weight bigint, ids_passed bigint[])
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    target  node_info;
    numbers bigint[];
    moment  constant timestamptz := clock_timestamp();
begin
    select * into target from node_info as node
     where node.incarnation = to_incarnation and is_reachable(node, node.lease);
    if not found or to_incarnation = its_incarnation then
        return;
    end if;
    ids := array(select job_id from job_assigned as job
                  where job.incarnation = its_incarnation and job.assignment = any (assignments)
                    and (ids is null or job.job_id = any (ids)) for update skip locked);
    parts := greatest(1, least(parts, cardinality(ids)));
    numbers := array(select next_assignment() from generate_series(1, 8 * parts));
    return query
    with passed as (
        update job_assigned as job
           set assignment = numbers[1 + job.lane + 8 * (job.job_id % parts)::integer], node_id = target.node_id,
               incarnation = to_incarnation, assigned_at = moment, handed = 1
         where job.incarnation = its_incarnation and job.assignment = any (assignments)
           and job.job_id = any (ids) and job.started_at is null and job.deaths < 2
           and job.queue = any (target.queues) and job.work_type = any (target.work_types)
           and (job.options -> 'unread' ?| target.type_versions) is not true
        returning job.assignment, job.weight, job.job_id
    )
    select passed.assignment, count(*)::integer, sum(passed.weight), array_agg(passed.job_id)
      from passed group by passed.assignment;
end $$;
