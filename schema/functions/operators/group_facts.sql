-- What holds the group of a job that does not run: how many of its jobs may run, how many do, some of them (first
-- those whose end can be expected, as that of one is enough), how many wait before this one, and some of those: the
-- first, and the first of each kind, as none of them may be stopped.
create or replace function txqueue.group_facts(this job) returns jsonb
language plpgsql volatile
set search_path = txqueue, pg_temp
set jit = off
set enable_seqscan = off
as $$
declare
    most    constant integer := 10000;
    silent  constant bigint[] := silent_jobs();
    allowed integer := coalesce(
        (select concurrency from control where kind = 'group' and key = this."group"),
        (select case when policy ? 'group_limit' then least((policy ->> 'group_limit')::double precision, 1e6)::integer end from work_type where work_type = this.work_type), 1);
    running integer := (select count(*) from (
        select job_id from job_assigned where "group" = this."group"
        union select job_id from group_hold where "group" = this."group") as taken where job_id <> this.job_id);
    holders jsonb;
    first   bigint[];
    keepers jsonb;
begin
    holders := coalesce((select jsonb_agg(held) from (
        select holder.job_id, node.name as node, coalesce(holder.started_at, holder.assigned_at) as since
          from job_assigned as holder left join node_info as node on node.node_id = holder.node_id
         where holder."group" = this."group" and holder.job_id <> this.job_id
         order by holder.job_id = any (silent), holder.started_at is null,
                  row_number() over (partition by holder.incarnation order by holder.assigned_at), holder.assigned_at
         limit 5) as held), '[]');
    keepers := (select jsonb_agg(held) from (
        select hold.job_id, min(step.began_at) as since,
               coalesce(jsonb_agg(jsonb_build_object('name', step.name, 'kind', step.kind, 'signal', step.signal, 'child', step.child,
                                            'until', step.until, 'since', step.began_at) order by step.number)
                   filter (where step.name is not null and (step.until > clock_timestamp()) is not false), '[]') as waits
          from group_hold as hold left join job_step as step on step.job_id = hold.job_id and step.ended_at is null
         where hold."group" = this."group" and hold.job_id <> this.job_id
           and not exists (select from job_assigned where job_assigned.job_id = hold.job_id)
         group by hold.job_id order by hold.job_id limit 5) as held);
    holders := holders || coalesce(keepers, '[]');
    first := array(
        select other.job_id
          from (select job_id, rank, row_number() over (
                    partition by queue, work_type, tenant, waiting_for, deaths > 1, weight order by rank, job_id) as place
                  from ((select job_id, rank, queue, work_type, tenant, null::text as waiting_for, deaths, weight from job_ready
                          where job_ready."group" = this."group" and (rank, job_id) < (this.rank, this.job_id) limit most)
                         union all
                        (select job_id, rank, queue, work_type, tenant, waiting_for, deaths, weight from job_waiting
                          where job_waiting."group" = this."group" and waiting_for in ('group', 'rate')
                            and (rank, job_id) < (this.rank, this.job_id) limit most)) as before) as other
         order by place, rank, job_id limit 8);
    return jsonb_build_object(
        'limit', allowed, 'running', running, 'holders', holders, 'first', first,
        'before', (select count(*) from (
            (select from job_waiting as other where other.waiting_for in ('group', 'rate') and other."group" = this."group"
                and (other.rank, other.job_id) < (this.rank, this.job_id) limit most)
            union all
            (select from job_ready as other where other."group" = this."group"
                and (other.rank, other.job_id) < (this.rank, this.job_id) limit most)) as others));
end $$;
