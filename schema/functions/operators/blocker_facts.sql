-- The facts about why one job does not run: the job, the live nodes and what they could take of it, what holds its
-- group, what an operator has asked of its node, the parents it waits for, the job that holds its unique key, what keeps
-- an ended one from a retry, the limits of its queue, group and tenant, how many ready jobs go first, and the sessions
-- whose locks claims wait for or pass over. behind has the numbers of the jobs that it waits for, those of its group
-- included. Null if there is no such job.
create or replace function txqueue.blocker_facts(its_job_id bigint) returns jsonb
language plpgsql volatile
set search_path = txqueue, pg_temp
set jit = off
set enable_seqscan = off
as $$
declare
    -- So many of the parents are looked at.
    most    constant integer := 10000;
    this    job;
    nodes   jsonb;
    grouped jsonb;
    awaited jsonb := '[]';
    parents bigint[];
    holder  bigint;
    damage  text;
    is_clear boolean;
    controls jsonb := '[]';
    locker  jsonb;
begin
    select * into this from job where job_id = its_job_id and state in ('waiting', 'ready', 'assigned', 'failed');
    if not found then
        -- Separately, as history has a leaf for each day.
        select * into this from job where job_id = its_job_id and state in ('done', 'cancelled') limit 1;
    end if;
    if this.job_id is null then
        return null;
    end if;
    -- What of its row is damaged must not hide the rest.
    damage := find_damage(this.options, this.payload, this.result, this.progress, this.error);
    this.payload := readable_json(this.payload);
    is_clear := exists (select from work_type as known
        where known.work_type = this.work_type and known.policy ? 'encrypted'
          and (not this.payload ? 'encrypted' or this.payload - 'encrypted' <> '{}') and not is_read_in_clear(this.work_type));
    this.payload := '{}';
    this.result := null;
    this.progress := null;
    this.options := readable_json(this.options);
    this.error := readable_text(this.error);
    select coalesce(jsonb_agg(jsonb_build_object(
               'name', name, 'state', state, 'load', load, 'capacity', capacity, 'incarnation', node.incarnation,
               'refused', report -> 'refused', 'may_claim', report -> 'may_claim', 'missing', report -> 'missing', 'lacking_right', lost.what, 'right_remedy', lost.remedy, 'workers', report -> 'workers', 'unable', report -> 'unable',
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
      cross join lateral lacking_right(report, false) as lost
     where state in ('alive', 'draining') and heartbeat_at > clock_timestamp() - lease;
    -- A job that its node has lost comes to its group once more.
    if this."group" is not null and (this.state in ('waiting', 'ready') or this.state = 'assigned' and not exists (
            select from jsonb_array_elements(nodes) as node where node -> 'incarnation' = to_jsonb(this.incarnation))) then
        grouped := group_facts(this);
    end if;
    -- Those that a blocked worker keeps, and the first of each kind, as none of them may be stopped.
    parents := array(
        select parent
          from (select link.parent, other.job_id = any (silent_jobs()) as is_silent, row_number() over (
                    partition by other.state, other.queue, other.work_type, other.tenant, other.waiting_for, other.incarnation
                    order by link.parent) as place
                  from (select parent from job_parent where child = this.job_id and ended is null order by parent limit most) as link
                  left join job as other on other.job_id = link.parent and other.state in ('waiting', 'ready', 'assigned')) as each
         order by is_silent is not true, place, parent limit 5);
    -- Statements of their own, as each start of one statement opens all leaves that it names.
    if parents <> '{}' then
        awaited := (select jsonb_agg(parent) from (
            select link.parent as job_id, other.state, link.any_end
              from job_parent as link left join job as other on other.job_id = link.parent
             where link.child = this.job_id and link.parent = any (parents) order by link.parent) as parent);
    end if;
    holder := (select job_id from unique_job where next_id = this.job_id);
    if exists (select from control where (kind, key) in (('queue', this.queue), ('group', this."group"), ('tenant', this.tenant))) then
        controls := control_facts(this);
    end if;
    if this.state in ('waiting', 'ready', 'assigned') then
        locker := (select lock_facts(row_locker(mine.xmax, mine.tableoid))
                     from job as mine where mine.job_id = this.job_id and mine.state = this.state and mine.xmax <> '0');
    end if;
    return jsonb_build_object(
        'job', to_jsonb(this) - 'payload' - 'result' - 'progress' - 'options' || jsonb_build_object(
            'error', split_part(this.error, E'\n', 1),
            'node', (select name from node_info where node_id = this.node_id)),
        'damage', damage,
        'is_clear', is_clear,
        'now', clock_timestamp(),
        'is_published', exists (select from work_type where work_type = this.work_type),
        'request', (select jsonb_build_object('who', who, 'is_restart', is_restart, 'at', at) from request
                     where request.job_id = this.job_id and request.incarnation = this.incarnation
                       and request.assignment = this.assignment),
        'unread', (select jsonb_build_object('by', this.options -> 'unread', 'since', unread.since, 'until', unread.until)
                     from unread_job as unread where unread.job_id = this.job_id),
        'nodes', nodes,
        -- Silent nodes that would serve its queue or have its type, and the rights without which the database refuses
        -- their statements.
        'silent', (select coalesce(jsonb_agg(to_jsonb(node) || jsonb_build_object('lacking_right', lost.what, 'right_remedy', lost.remedy)
                                             order by place), '[]')
            from (select name, hostname, heartbeat_at, report -> 'login' as login, report -> 'role' as role,
                         this.queue = any (queues) as serves, this.work_type = any (work_types) as knows,
                         row_number() over (order by this.queue = any (queues) and this.work_type = any (work_types) desc,
                                                     heartbeat_at desc, name) as place
                    from node_info
                   where state <> 'stopped' and heartbeat_at <= clock_timestamp() - lease
                     and (this.queue = any (queues) or this.work_type = any (work_types))
                   order by place limit 5) as node
            cross join lateral lacking_right(jsonb_build_object('login', login, 'role', role), true) as lost),
        'group', grouped,
        'waits', case when this.options ? 'steps' and this.state = 'waiting' and this.waiting_for in ('signal', 'time', 'parents') and this.fingerprint is null then (
            select jsonb_agg(jsonb_build_object('name', name, 'kind', kind, 'signal', signal, 'annotation', annotation, 'child', child, 'until', until, 'since', began_at)
                             order by number)
              from job_step where job_id = its_job_id and ended_at is null and (until > clock_timestamp()) is not false) end,
        'parents', awaited,
        'parents_left', (select count(*) from job_parent where child = this.job_id and ended is null),
        'reopening', reopen_obstacles(this),
        'precedes', holder,
        'behind', array_remove(parents || holder || array(
            select value::bigint from jsonb_array_elements_text(grouped -> 'first') as value), null)
            || array(select (value ->> 'job_id')::bigint from jsonb_array_elements(grouped -> 'holders') as value),
        'ahead', case when this.state = 'ready' or this.waiting_for in ('time', 'rate') then ahead_facts(this)
                      else '{"jobs": 0, "weight": 0, "suspects": 0}' end,
        'controls', controls,
        'locked', locker,
        -- Such as those of `create index` and `lock table`.
        'claims_locked', (select holder_of from pg_locks as lock, lock_facts(lock.pid) as holder_of
           where lock.relation in (select relid from pg_partition_tree('job') union all select 'claiming'::regclass)
             and lock.granted and lock.database = (select oid from pg_database where datname = current_database())
             and lock.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
             and holder_of is not null limit 1));
end $$;
