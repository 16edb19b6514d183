-- The facts about why one job does not run: the job, the live nodes and what they could take of it, what holds its
-- group, the parents it waits for, the job that holds its unique key, what keeps an ended one from a retry, the limits
-- of its queue, group and tenant, how many ready jobs go first, and the sessions whose locks claims wait for or pass
-- over. behind has the numbers of the jobs that it waits for, those of its group included. Null if there is no such job.
create or replace function txqueue.blocker_facts(its_job_id bigint) returns jsonb
language plpgsql volatile
set search_path = txqueue, pg_temp
set jit = off
set enable_seqscan = off
as $$
declare
    most    constant integer := 10000;
    few     constant integer := 1000;
    this    job;
    nodes   jsonb;
    queues  text[];
    types   text[];
    grouped jsonb;
    parents bigint[];
    holder  bigint;
    damage  text;
    is_clear boolean;
begin
    select * into this from job where job_id = its_job_id
     order by state in ('done', 'cancelled') limit 1;
    if this.job_id is null then
        return null;
    end if;
    -- What of its row is damaged must not hide the rest.
    damage := find_damage(options => this.options, payload => this.payload, error => this.error);
    this.payload := readable_json(this.payload);
    is_clear := exists (select from work_type as known
        where known.work_type = this.work_type and known.policy ? 'encrypted'
          and (not this.payload ? 'encrypted' or this.payload - 'encrypted' <> '{}'));
    this.payload := '{}';
    this.result := null;
    this.progress := null;
    this.options := readable_json(this.options);
    this.error := readable_text(this.error);
    select coalesce(jsonb_agg(jsonb_build_object(
               'name', name, 'state', state, 'load', load, 'capacity', capacity, 'incarnation', node.incarnation,
               'missing', report -> 'missing', 'workers', report -> 'workers', 'unable', report -> 'unable',
               'closed', report -> 'closed', 'blocking', report -> 'blocking', 'maybe_blocking', report -> 'maybe_blocking', 'beside', report -> 'beside', 'room', report -> 'room', 'left', report -> 'left', 'held', coalesce(held.weight, 0), 'busy_since', held.since,
               'serves', this.queue = any (node.queues), 'knows', this.work_type = any (work_types),
               'lacks_key', coalesce(report -> 'keyless', '[]') ? this.work_type,
               'lacks_its_key', coalesce(this.options -> 'no_key' @> to_jsonb(node.incarnation), false),
               'applications', report -> 'applications',
               'has_tried', (select bool_and(this.options -> 'unread' ? each.name)
                   from jsonb_array_elements_text(coalesce(report -> 'type_versions', to_jsonb(type_versions))) as each (name)
                  where split_part(each.name, '#', 1) = this.work_type)) order by name), '[]')
      into nodes
      from node_info as node
      left join (select incarnation, sum(weight) as weight, min(coalesce(started_at, assigned_at)) as since
                   from job_assigned group by incarnation) as held using (incarnation)
     where state in ('alive', 'draining') and heartbeat_at > clock_timestamp() - lease;
    if this.state = 'ready' or this.waiting_for in ('time', 'rate') then
        -- What the nodes that could run it could run before it.
        select array_agg(distinct queue), array_agg(distinct work_type) into queues, types
          from node_info, unnest(node_info.queues) as queue, unnest(work_types) as work_type
         where state = 'alive' and heartbeat_at > clock_timestamp() - lease
           and this.queue = any (node_info.queues) and this.work_type = any (work_types);
    end if;
    if this."group" is not null and this.state in ('waiting', 'ready') then
        grouped := group_facts(this);
    end if;
    parents := array(select parent from job_parent where child = this.job_id and ended is null order by parent limit 5);
    holder := (select job_id from unique_job where next_id = this.job_id);
    return jsonb_build_object(
        'job', to_jsonb(this) - 'payload' - 'result' - 'progress' - 'options' || jsonb_build_object(
            'error', split_part(this.error, E'\n', 1),
            'node', (select name from node_info where node_id = this.node_id)),
        'damage', damage,
        'is_clear', is_clear,
        'now', clock_timestamp(),
        'is_published', exists (select from work_type where work_type = this.work_type),
        'unread', (select jsonb_build_object('by', this.options -> 'unread', 'since', unread.since, 'until', unread.until)
                     from unread_job as unread where unread.job_id = this.job_id),
        'nodes', nodes,
        'group', grouped,
        'parents', coalesce((select jsonb_agg(parent) from (
            select link.parent as job_id, other.state, link.any_end
              from job_parent as link left join job as other on other.job_id = link.parent
             where link.child = this.job_id and link.parent = any (parents) order by link.parent) as parent), '[]'),
        'parents_left', (select count(*) from job_parent where child = this.job_id and ended is null),
        'reopening', reopen_obstacles(this),
        'precedes', holder,
        'behind', array_remove(parents || holder || array(
            select value::bigint from jsonb_array_elements_text(grouped -> 'first') as value), null)
            || array(select (value ->> 'job_id')::bigint from jsonb_array_elements(grouped -> 'holders') as value),
        'ahead', (select jsonb_build_object('jobs', count(*), 'weight', coalesce(sum(first.weight), 0),
                             'suspects', count(*) filter (where first.deaths > 1))
            from (select weight, deaths
                    from unnest(queues) as wanted (queue), lateral (
                         select * from job_ready
                          where job_ready.queue = wanted.queue and job_ready.tenant is null
                            and (this.tenant is not null or (rank, job_id) < (this.rank, this.job_id))
                         union all
                         select * from job_ready
                          where job_ready.queue = wanted.queue and job_ready.tenant is not null
                            and (job_ready.tenant is distinct from this.tenant or (rank, job_id) < (this.rank, this.job_id))) as other
                   where work_type = any (types) and (readable_json(options) -> 'unread' ?| types) is not true
                     and not exists (select from control where is_paused
                             and (kind, key) in (('queue', other.queue), ('tenant', other.tenant), ('group', other."group")))
                   limit most) as first),
        'controls', coalesce((select jsonb_agg(to_jsonb(control) - 'control_id' || jsonb_build_object(
                'opens_in', bucket.opens_in, 'tokens', bucket.jobs,
                'ahead', case
                    when concurrency is null and rate is null then 0
                    when kind = 'queue' then (select count(*) from (
                        (select from job_ready as other where other.queue = key and other.tenant is null
                            and goes_first(other.job_id, other.rank, other.queue, other.work_type, null, this) limit few)
                        union all
                        (select from job_ready as other where other.queue = key and other.tenant is not null
                            and goes_first(other.job_id, other.rank, other.queue, other.work_type, other.tenant, this) limit few)) as others)
                    when kind = 'tenant' then (select count(*) from (
                        select from job_ready as other where other.tenant = key
                           and goes_first(other.job_id, other.rank, other.queue, other.work_type, other.tenant, this) limit few) as others)
                    else 0 end,
                'running', case kind
                    when 'queue' then (select count(*) from job_assigned where queue = key and counted is not null)
                    when 'group' then (select count(*) from job_assigned where "group" = key)
                    else (select count(*) from job_assigned where tenant = key) end))
            from control cross join lateral bucket_level(control) as bucket
           where (kind, key) in (('queue', this.queue), ('group', this."group"), ('tenant', this.tenant))), '[]'),
        'locked', (select lock_facts(lock.pid)
            from job as mine, pg_locks as lock
           where mine.job_id = this.job_id and mine.state = this.state and this.state in ('waiting', 'ready')
             and lock.locktype = 'transactionid' and lock.granted and lock.transactionid = mine.xmax limit 1),
        'claims_locked', (select lock_facts(lock.pid) from pg_locks as lock
           where lock.relation = 'claiming'::regclass and lock.granted
             and lock.database = (select oid from pg_database where datname = current_database())
             and lock.mode in ('ExclusiveLock', 'AccessExclusiveLock') limit 1));
end $$;
