-- Why jobs do not run: what programs call comes first, then its steps and what they use.

-- The facts of explain_facts() for some jobs, as many as are found in a second. A job whose row is damaged is left out, so
-- that the others are found; at the time limit of the statement, too, those that were found are returned.
create or replace function txqueue.explain_each(ids bigint[]) returns table (job_id bigint, facts jsonb)
language plpgsql volatile security definer
as $$
begin
    foreach job_id in array ids loop
        begin
            facts := explain_facts(job_id);
        exception when query_canceled then
            return;
        when data_exception or internal_error or program_limit_exceeded or system_error then
            facts := null;
        end;
        if facts is not null then
            return next;
        end if;
        exit when clock_timestamp() > statement_timestamp() + interval '1 second';
    end loop;
end $$;

-- The facts about why one job does not run: the job, the live nodes and what they could take of it, what holds its
-- group, what an operator has asked of its node, the parents it waits for, the job that holds its unique key, the jobs
-- through which it waits for its own end, what keeps an ended one from a retry, the limits of its queue, group and tenant,
-- how many ready jobs go first, and the sessions whose locks claims wait for or pass over. Null if there is no such job.
create or replace function txqueue.explain_facts(its_job_id bigint) returns jsonb
language plpgsql volatile security definer
set enable_seqscan = off
as $$
declare
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
      cross join lateral lacking_right(report) as lost
     where state in ('alive', 'draining') and heartbeat_at > clock_timestamp() - lease;
    -- A job that its node has lost comes to its group once more.
    if this."group" is not null and (this.state in ('waiting', 'ready') or this.state = 'assigned' and not exists (
            select from jsonb_array_elements(nodes) as node where node -> 'incarnation' = to_jsonb(this.incarnation))) then
        grouped := group_facts(this);
    end if;
    parents := array(select parent from job_parent where child = this.job_id and ended is null order by parent limit 5);
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
        'held', (select jsonb_agg(jsonb_build_object('work_type', work_type, 'application', application, 'error', error,
                                                     'failed', failed, 'runs', runs) order by application, held_at)
                   from version_failure as held where work_type = this.work_type and is_held(held)),
        -- Silent nodes that would serve its queue or have its type, and the rights without which the database refuses
        -- their statements.
        'silent', (select coalesce(jsonb_agg(to_jsonb(node) || jsonb_build_object('lacking_right', lost.what, 'right_remedy', lost.remedy)
                                             order by place), '[]')
            from (select name, hostname, heartbeat_at, extract(epoch from clock_timestamp() - heartbeat_at) as heartbeat_seconds, report -> 'login' as login, report -> 'role' as role,
                         this.queue = any (queues) as serves, this.work_type = any (work_types) as knows,
                         row_number() over (order by this.queue = any (queues) and this.work_type = any (work_types) desc,
                                                     heartbeat_at desc, name) as place
                    from node_info
                   where state <> 'stopped' and heartbeat_at <= clock_timestamp() - lease
                     and (this.queue = any (queues) or this.work_type = any (work_types))
                   order by place limit 5) as node
            cross join lateral lacking_right(jsonb_build_object('login', login, 'role', role)) as lost),
        'group', grouped,
        'waits', case when this.options ? 'steps' and this.state = 'waiting' and this.waiting_for in ('signal', 'time', 'parents') and this.fingerprint is null then (
            select jsonb_agg(jsonb_build_object('name', name, 'kind', kind, 'signal', signal, 'annotation', annotation, 'child', child, 'until', until, 'since', began_at)
                             order by number)
              from job_step where job_id = its_job_id and ended_at is null and (until > clock_timestamp()) is not false) end,
        'parents', awaited,
        'parents_left', (select count(*) from job_parent where child = this.job_id and ended is null),
        'reopening', reopen_obstacles(this),
        'precedes', holder,
        'cycle', case when this.state = 'waiting' then own_cycle(this.job_id) end,
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

-- What holds the group of a job that does not run: how many of its jobs may run, how many do, some of them, how many wait
-- before this one, and the first of those.
create or replace function txqueue.group_facts(this job) returns jsonb
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    most    constant integer := 10000;
    running integer := (select count(*) from (
        select job_id from job_assigned where "group" = this."group"
        union select job_id from group_hold where "group" = this."group") as taken where job_id <> this.job_id);
    holders jsonb;
    keepers jsonb;
begin
    holders := coalesce((select jsonb_agg(held) from (
        select holder.job_id, node.name as node, coalesce(holder.started_at, holder.assigned_at) as since
          from job_assigned as holder left join node_info as node on node.node_id = holder.node_id
         where holder."group" = this."group" and holder.job_id <> this.job_id
         order by holder.started_at is null, holder.assigned_at
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
    return (
        with before as materialized (
            (select job_id, rank from job_ready
              where "group" = this."group" and (rank, job_id) < (this.rank, this.job_id) order by rank, job_id limit most)
             union all
            (select job_id, rank from job_waiting
              where "group" = this."group" and waiting_for in ('group', 'rate')
                and (rank, job_id) < (this.rank, this.job_id) order by rank, job_id limit most))
        select jsonb_build_object(
            'limit', group_limit(this."group", this.work_type), 'running', running, 'holders', holders || coalesce(keepers, '[]'),
            'rate', (select policy -> 'group_rate' || jsonb_build_object('opens_in', level.opens_in)
                       from work_type, rate_level(work_type, this."group", policy -> 'group_rate') as level
                      where work_type = this.work_type and policy ? 'group_rate'),
            'first', array(select job_id from before order by rank, job_id limit 1), 'before', (select count(*) from before)));
end $$;

-- How many jobs of a group may run at a time, of which one has a work type.
create or replace function txqueue.group_limit(its_group text, its_work_type text) returns integer
language sql stable
as $$
    select coalesce(
        (select concurrency from control where kind = 'group' and key = its_group),
        (select least((policy ->> 'group_limit')::double precision, 1e6)::integer from work_type
          where work_type = its_work_type and policy ? 'group_limit'), 1)
$$;

-- The jobs through which a waiting job waits for its own end: each waits for the next one, the last is the job itself. It
-- looks at twenty jobs; null if these do not lead back. A wait with a time limit ends without any of them.
create or replace function txqueue.own_cycle(its_job_id bigint) returns jsonb
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    most  constant integer := 20;
    found bigint[] := array[its_job_id];
    ways  jsonb := jsonb_build_object(its_job_id, '[]'::jsonb);
    place integer := 0;
    other bigint;
begin
    while place < least(cardinality(found), most) loop
        place := place + 1;
        for other in
            select needed
              from job_waiting as its cross join lateral (
                   select parent as needed from job_parent
                    where child = its.job_id and ended is null and not exists (
                          select from job_step where job_id = its.job_id and ended_at is null and until > clock_timestamp())
                   union all
                   select job_id from unique_job where next_id = its.job_id
                   union all
                   select hold.job_id from group_hold as hold
                    where its.waiting_for = 'group' and hold."group" = its."group" and hold.job_id <> its.job_id
                      and group_limit(its."group", its.work_type) = 1) as each
             where its.job_id = found[place] order by 1 limit most
        loop
            if other = its_job_id then
                return (ways -> found[place]::text) || to_jsonb(other);
            end if;
            if other <> all (found) then
                found := found || other;
                ways := ways || jsonb_build_object(other, (ways -> found[place]::text) || to_jsonb(other));
            end if;
        end loop;
    end loop;
    return null;
end $$;

-- The limits and pauses of a job's queue, group and tenant: what they have left, how many of their jobs run, and how
-- many ready ones go before it; silent has those of the running ones whose workers do not answer.
create or replace function txqueue.control_facts(this job) returns jsonb
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    few    constant integer := 1000;
    silent constant bigint[] := silent_jobs();
    allowed constant jsonb := limited_now();
begin
    return coalesce((select jsonb_agg(to_jsonb(control) - 'control_id' || jsonb_build_object(
            'opens_in', bucket.opens_in, 'tokens', bucket.jobs,
            'ahead', case
                when concurrency is null and rate is null then 0
                when kind = 'queue' then (select count(*) from (
                    (select from job_ready as other where other.queue = key and other.tenant is null
                        and goes_first(other.job_id, other.rank, other.queue, other.work_type, null, this) limit few)
                    union all
                    (select from job_ready as other where other.queue = key and other.tenant is not null
                        and (allowed -> 'tenant' ->> other.tenant)::integer > 0 is not false
                        and goes_first(other.job_id, other.rank, other.queue, other.work_type, other.tenant, this) limit few)) as others)
                when kind = 'tenant' then (select count(*) from (
                    select from job_ready as other where other.tenant = key
                       and (allowed -> 'queue' ->> other.queue)::integer > 0 is not false
                       and goes_first(other.job_id, other.rank, other.queue, other.work_type, other.tenant, this) limit few) as others)
                else 0 end,
            'silent', (select coalesce(jsonb_agg(held.job_id), '[]') from job_assigned as held
                        where held.job_id = any (silent)
                          and (case kind when 'queue' then held.queue when 'tenant' then held.tenant end) = key
                          and (kind <> 'queue' or held.counted is not null)),
            'running', case kind
                when 'queue' then (select count(*) from job_assigned where queue = key and counted is not null)
                when 'group' then (select count(*) from job_assigned where "group" = key)
                else (select count(*) from job_assigned where tenant = key) end))
        from control cross join lateral bucket_level(control) as bucket
           where (kind, key) in (('queue', this.queue), ('group', this."group"), ('tenant', this.tenant))), '[]');
end $$;

-- How many more jobs the limits and rates of queues and tenants let start now, by kind and key.
create or replace function txqueue.limited_now() returns jsonb
language plpgsql volatile
as $$
begin
    if not exists (select from control where kind <> 'group' and (concurrency is not null or rate is not null or held_until > clock_timestamp())) then
        return '{}';
    end if;
    return coalesce((
        with running as (
            select 'queue' as kind, queue as key, count(*) as jobs from job_assigned where counted is not null group by queue
            union all
            select 'tenant', tenant, count(*) from job_assigned where tenant is not null group by tenant),
        allowed as (
            select kind, jsonb_object_agg(key, case when held_until > clock_timestamp() then 0
                       else greatest(0, least(concurrency - coalesce(running.jobs, 0), bucket.jobs)) end) as keys
              from control left join running using (kind, key)
              left join lateral (select * from bucket_level(control) where control.rate is not null offset 0) as bucket on true
             where kind <> 'group' and (concurrency is not null or rate is not null or held_until > clock_timestamp())
             group by kind)
        select jsonb_object_agg(kind, keys) from allowed), '{}');
end $$;

-- Whether a ready job may be claimed before another one that has the same limit: it ranks before it, has a turn of its
-- own as that of another tenant, or a node may claim it that cannot run the other job, or passes over it.
create or replace function txqueue.goes_first(
    its_job_id bigint, its_rank timestamptz, its_queue text, its_work_type text, its_tenant text, this job) returns boolean
language sql volatile
as $$
    select its_job_id <> this.job_id and exists (
        select from node_info
         where state = 'alive' and heartbeat_at > clock_timestamp() - lease
           and its_queue = any (queues) and its_work_type = any (work_types) and starts_jobs(report)
           and ((its_rank, its_job_id) < (this.rank, this.job_id) or its_tenant is distinct from this.tenant
                or not (this.queue = any (queues) and this.work_type = any (work_types))
                or passes_over(report, capacity, this)))
$$;

-- Whether claims of a node that reports this leave a ready job and take others behind it: it is a suspect and no process
-- is left for one, or too heavy however many others end.
create or replace function txqueue.passes_over(report jsonb, its_capacity integer, this job) returns boolean
language sql stable
as $$
    select this.deaths > 1 and not coalesce((report -> 'room' ->> 'takes_suspects')::boolean, true)
        or coalesce(this.weight > most_attainable(report, its_capacity,
               (select reserve from control where kind = 'queue' and key = this.queue and this.priority < 7)), false)
$$;

-- The session for which those wait that need what a process holds, and for how many seconds its transaction has been open:
-- that process, or the one for which it waits itself. The time is null if the owner of the schema may not see that
-- session. Null for a transaction of less than a second, as claims and completions hold locks for so long, and for a
-- session of a node.
create or replace function txqueue.lock_facts(its_pid integer) returns jsonb
language sql volatile
as $$
    with recursive waiting (pid) as (
        select its_pid
        union
        select blocker from waiting, unnest(pg_blocking_pids(waiting.pid)) as blocker
    )
    select jsonb_build_object('pid', pid, 'name', nullif(application_name, ''), 'seconds', seconds)
      from waiting join pg_stat_activity using (pid), lateral (select extract(epoch from clock_timestamp() - xact_start)) as its (seconds)
     where pid <> pg_backend_pid() and pg_blocking_pids(pid) = '{}' and coalesce(seconds, 1) >= 1
       and not exists (select from node_info where application_name in (left('txqueue ' || name, 63), left('txqueue worker ' || name, 63)))
     order by seconds desc limit 1
$$;

-- How many ready jobs the nodes that could run a job could claim before it, their weight, that of the heaviest, and how
-- many of them are suspects. Not those that claims pass over: on a node that starts no job, or no suspect, or has no room for so heavy
-- ones however many others end, or has tried to read them; nor those of what is paused, or beyond what a limit allows now.
create or replace function txqueue.ahead_facts(this job) returns jsonb
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    most    constant integer := 10000;
    allowed constant jsonb := limited_now();
begin
    return (
        with offered as (
            select distinct queue, work_types, coalesce((report -> 'room' ->> 'takes_suspects')::boolean, true) as takes_suspects,
                   most_attainable(report, capacity, (select reserve from control where kind = 'queue' and key = queue)) as heaviest,
                   most_attainable(report, capacity, null) as heaviest_urgent,
                   array(select jsonb_array_elements_text(coalesce(report -> 'type_versions', to_jsonb(type_versions)))) as versions
              from node_info, unnest(case when cardinality(queues) < 100 then queues else ready_queues(queues, '-infinity', 0) end) as queue
             where state = 'alive' and heartbeat_at > clock_timestamp() - lease and starts_jobs(report)
               and this.queue = any (queues) and this.work_type = any (work_types)),
        -- The nodes of thousands of queues have few terms, which are compared with each job.
        placed_offer as materialized (
            select *, dense_rank() over (order by work_types, takes_suspects, heaviest, heaviest_urgent, versions) as place
              from offered where (allowed -> 'queue' ->> queue)::integer > 0 is not false),
        taker as materialized (select distinct on (place) * from placed_offer),
        first as (
            select other.*
              from (select queue, array_agg(place) as places from placed_offer group by queue) as wanted, lateral (
                   select * from job_ready
                    where job_ready.queue = wanted.queue and job_ready.tenant is null
                      and (this.tenant is not null or (rank, job_id) < (this.rank, this.job_id))
                   union all
                   select * from job_ready
                    where job_ready.queue = wanted.queue and job_ready.tenant is not null
                      and (job_ready.tenant is distinct from this.tenant or (rank, job_id) < (this.rank, this.job_id)
                           -- In the turn of the jobs without a tenant, as next_job() says.
                           or priority >= 7 and exists (
                                select from control where kind = 'queue' and key = wanted.queue and reserve > 0))) as other
             where exists (select from taker
                    where taker.place = any (wanted.places) and other.work_type = any (taker.work_types)
                      and (taker.takes_suspects or other.deaths <= 1)
                      and (other.weight > case when other.priority >= 7 then heaviest_urgent else heaviest end) is not true
                      and (readable_json(other.options) -> 'unread' ?| (versions || taker.work_types)) is not true)
               and (allowed -> 'tenant' ->> other.tenant)::integer > 0 is not false
               and not exists (select from control where (is_paused or held_until > clock_timestamp())
                       and (kind, key) in (('queue', other.queue), ('tenant', other.tenant), ('group', other."group")))
             limit most),
        placed as (
            -- Of tenants, the heaviest may start first: another one may wait for its turn or its group.
            select weight, deaths, queue, tenant,
                   row_number() over (partition by queue order by case when tenant is not null then weight end desc nulls last, rank, job_id) as in_queue,
                   row_number() over (partition by tenant order by weight desc, rank, job_id) as in_tenant
              from first)
        select jsonb_build_object('jobs', count(*), 'weight', coalesce(sum(weight), 0), 'heaviest', max(weight),
                         'suspects', count(*) filter (where deaths > 1))
          from placed
         where (in_queue > (allowed -> 'queue' ->> queue)::integer) is not true
           and (in_tenant > (allowed -> 'tenant' ->> tenant)::integer) is not true);
end $$;

-- The numbers of jobs that are not history, failed ones included, and since when the oldest of them could
-- run. A view and not a function, so that the read-only role may use it; history is left out, because
-- counting it would take ever longer. Jobs wait for what people wait for: for a signal, also if that has a time limit,
-- and for the end of a pause. They are counted apart and subtracted, so that the jobs of all other reasons are only counted.
create or replace view txqueue.live_jobs as
with counted as (
    select queue, work_type, state, waiting_for, count(*) as jobs, min(not_before) as oldest
      from txqueue.job
     where state in ('waiting', 'ready', 'assigned', 'failed')
     group by queue, work_type, state, waiting_for
), known as (
    select queue, work_type, waiting_for as given, 'signal' as waiting_for, count(*) as jobs, min(not_before) as oldest
      from txqueue.job_waiting as job
     where waiting_for = 'time' and fingerprint is null
       and exists (select from txqueue.job_step as step
                    where step.job_id = job.job_id and step.kind = 'signal' and step.ended_at is null)
     group by 1, 2, 3
     union all
    select queue, work_type, waiting_for, 'pause', count(*), min(not_before)
      from txqueue.job_waiting
     where waiting_for = 'group' and "group" in (select key from txqueue.control where kind = 'group' and is_paused)
     group by 1, 2, 3
)
select queue, work_type, state, waiting_for, sum(jobs)::bigint as jobs, min(oldest) as oldest
  from (select * from counted
         union all
        select queue, work_type, 'waiting', given, -jobs, null from known
         union all
        select queue, work_type, 'waiting', waiting_for, jobs, oldest from known) as each
 group by queue, work_type, state, waiting_for
having sum(jobs) > 0;
comment on view txqueue.live_jobs is 'The numbers of jobs that are not history.';

-- What keeps vacuum from removing dead rows: transactions open for over a minute that hold a snapshot,
-- prepared transactions, replication slots. A role sees others' transactions only as a member of
-- pg_read_all_stats.
create or replace view txqueue.old_snapshots as
select 'transaction' as kind, coalesce(nullif(application_name, ''), usename::text) as name, pid,
       xact_start as since
  from pg_stat_activity
 where datname = current_database() and backend_type = 'client backend' and backend_xmin is not null
   and pid <> pg_backend_pid() and xact_start < clock_timestamp() - interval '1 minute'
union all
select 'prepared transaction', gid, null, prepared
  from pg_prepared_xacts
 where database = current_database() and prepared < clock_timestamp() - interval '1 minute'
union all
select 'replication slot', slot_name::text, active_pid, null
  from pg_replication_slots
 where xmin is not null and not active;
comment on view txqueue.old_snapshots is 'What keeps vacuum from removing dead rows.';

-- When a job last changed: enqueued, assigned to a node, started, failed in an attempt, or ended; not a change of its
-- priority.
create or replace function txqueue.updated_at(its txqueue.job) returns timestamptz
language sql immutable parallel safe  -- inlined
as $$
    select greatest(its.enqueued_at, its.assigned_at, its.started_at, its.failed_at, its.finished_at)
$$;
comment on function txqueue.updated_at(txqueue.job) is 'When a job was last enqueued, assigned, started, failed in an attempt, or ended.';

-- The weight of a queue's jobs that run or could run now, up to 10,000: what a fleet of nodes is sized by. It reads
-- at most 10,000 rows of each kind, and counts due jobs that wait for their time: no node promotes these while none
-- runs. Assigned jobs have no index by queue, so it reads the first ones of all queues.
create or replace function txqueue.demand(queue text) returns bigint
language sql stable security definer
set enable_seqscan = off
as $$
    select least(10000, coalesce(sum(weight), 0))
      from ((select weight from job_ready where job_ready.queue = $1 and tenant is null limit 10000)
             union all
            (select weight from job_ready where job_ready.queue = $1 and tenant is not null limit 10000)
             union all
            (select weight
               from (select job_assigned.queue, weight from job_assigned limit 10000) as assigned
              where assigned.queue = $1)
             union all
            (select weight
               from (select job_waiting.queue, weight from job_waiting
                      where waiting_for in ('time', 'rate') and not_before <= now()
                      order by not_before limit 10000) as due
              where due.queue = $1)) as jobs
$$;
