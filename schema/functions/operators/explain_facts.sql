-- All facts about why a job does not run, as one object: the job, the live nodes and whether each serves its
-- queue and type, the jobs that hold its group, the parents it waits for, the job that holds its unique key, what
-- keeps an ended one from a retry,
-- the limits of its queue, group and tenant, and how many jobs rank before it. Null if there is no such job.
create or replace function txqueue.explain_facts(its_job_id bigint) returns jsonb
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
set enable_seqscan = off
as $$
declare
    most constant integer := 10000;
    this job;
begin
    select * into this from job where job_id = its_job_id
     order by state in ('done', 'cancelled') limit 1;
    if this.job_id is null then
        return null;
    end if;
    return jsonb_build_object(
        'job', to_jsonb(this) - 'payload' - 'result' - 'progress' - 'options' || jsonb_build_object(
            'error', split_part(this.error, E'\n', 1),
            'node', (select name from node_info where node_id = this.node_id)),
        'now', clock_timestamp(),
        'is_published', exists (select from work_type where work_type = this.work_type),
        'unread', (select jsonb_build_object('by', this.options -> 'unread', 'since', unread.since, 'until', unread.until)
                     from unread_job as unread where unread.job_id = this.job_id),
        'nodes', coalesce((select jsonb_agg(jsonb_build_object(
                'name', name, 'state', state, 'load', load, 'capacity', capacity, 'incarnation', incarnation,
                'missing', report -> 'missing', 'workers', report -> 'workers', 'unable', report -> 'unable',
                'serves', this.queue = any (queues), 'knows', this.work_type = any (work_types),
                'applications', report -> 'applications',
                'has_tried', (select bool_and(this.options -> 'unread' ? each.name)
                    from jsonb_array_elements_text(coalesce(report -> 'type_versions', to_jsonb(type_versions))) as each (name)
                   where split_part(each.name, '#', 1) = this.work_type)) order by name)
            from node_info where state in ('alive', 'draining') and heartbeat_at > clock_timestamp() - lease), '[]'),
        'holders', coalesce((select jsonb_agg(held) from (
            select holder.job_id, node.name as node, coalesce(holder.started_at, holder.assigned_at) as since
              from job_assigned as holder left join node_info as node on node.node_id = holder.node_id
             where holder."group" = this."group" order by holder.assigned_at limit 5) as held), '[]'),
        'parked_before', (select count(*) from (select from job_waiting as other
             where other.waiting_for = 'group' and other."group" = this."group"
               and (other.rank, other.job_id) < (this.rank, this.job_id) limit most) as others),
        'parents', coalesce((select jsonb_agg(parent) from (
            select link.parent as job_id, other.state, link.any_end
              from job_parent as link left join job as other on other.job_id = link.parent
             where link.child = this.job_id and link.ended is null order by link.parent limit 5) as parent), '[]'),
        'parents_left', (select count(*) from job_parent where child = this.job_id and ended is null),
        'reopening', reopen_obstacles(this),
        'precedes', (select job_id from unique_job where next_id = this.job_id),
        'ahead', case when this.state = 'ready' then (select count(*) from (
             (select from job_ready as other where other.queue = this.queue and other.tenant is null and this.tenant is null
                 and (other.rank, other.job_id) < (this.rank, this.job_id) limit most)
             union all
             (select from job_ready as other where other.queue = this.queue and other.tenant = this.tenant
                 and (other.rank, other.job_id) < (this.rank, this.job_id) limit most)) as others) else 0 end,
        'controls', coalesce((select jsonb_agg(to_jsonb(control) - 'control_id' || jsonb_build_object(
                'opens_in', bucket.opens_in,
                'running', case kind
                    when 'queue' then (select count(*) from job_assigned where queue = key and counted is not null)
                    when 'group' then (select count(*) from job_assigned where "group" = key)
                    else (select count(*) from job_assigned where tenant = key) end))
            from control cross join lateral bucket_level(control) as bucket
           where (kind, key) in (('queue', this.queue), ('group', this."group"), ('tenant', this.tenant))), '[]'));
end $$;
