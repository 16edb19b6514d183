-- Nodes and their leases: what programs call comes first, then its steps and what they use.

-- Registers one run of a node under its name and publishes its work types. An earlier run of the same name is
-- fenced, and its jobs return to the queue. Jobs that waited for one of the types become ready, under the
-- policy published, as do those that other versions of their types could not read. former_died: whether the
-- earlier run has died with its workers, as is so unless the same process registers again; then its_start says when that
-- process registered first, unless its code is older. Raises an error if another run than the one that reserve_run()
-- returned has the name by now.
create or replace function txqueue.register_node(
    its_name text, its_hostname text, its_pid integer, its_port integer, its_lease double precision,
    its_capacity integer, its_queues text[], its_work_types jsonb, its_version text,
    its_address text, reserved integer default null, its_former integer default null, former_died boolean default true,
    its_start timestamptz default null, out node_id integer, out incarnation integer)
language plpgsql volatile security definer
as $$
declare
    replaced  integer;
    was_ended boolean;
    names     text[] := array(select each ->> 'work_type' from jsonb_array_elements(its_work_types) as each);
    versions  text[] := array(select each ->> 'version'
                                from jsonb_array_elements(its_work_types) as each where each ? 'version');
begin
    perform check_isolation('a node does not work');
    former_died := former_died and its_start is null;
    incarnation := coalesce(reserved, (reserve_run(its_name)).incarnation);
    select info.incarnation, info.state = 'stopped' into replaced, was_ended
      from node_info as info where info.name = its_name for update;
    insert into node_info as info (name, hostname, pid, port, incarnation, lease, capacity, queues, work_types, type_versions,
                                   version, address)
    values (its_name, its_hostname, its_pid, its_port, incarnation, make_interval(secs => its_lease),
            its_capacity, its_queues, names, versions, its_version, its_address)
    on conflict (name) do update set
        hostname = excluded.hostname, pid = excluded.pid, port = excluded.port,
        incarnation = excluded.incarnation, started_at = clock_timestamp(), heartbeat_at = clock_timestamp(),
        lease = excluded.lease, state = 'alive', load = 0, capacity = excluded.capacity,
        queues = excluded.queues, work_types = excluded.work_types, type_versions = excluded.type_versions,
        version = excluded.version, address = excluded.address, report = '{}', leased_at = clock_timestamp(), vouched_at = null, ended_at = null,
        former = info.incarnation, beats = 0
    returning info.node_id, info.former into node_id, replaced;
    if its_former <> coalesce(replaced, 0) then
        perform refuse(format('a newer run of the node %s has registered', its_name), 'give each node a name of its own');
    end if;
    if replaced is not null then
        perform release(replaced, '{}', former_died and was_ended is not true, true, at_most => 5000);
    end if;
    perform publish(its_work_types, case when not former_died then coalesce(its_start, 'epoch') end);
    perform review_unread();
end $$;

-- Publishes the policies of work types, and readies jobs that waited for one of them: up to 10,000, the others
-- with the next heartbeats. Returns how many. The policy of the process that started last counts: its_start is when the
-- caller's did, null for now, so that a node that only registers again does not undo what a newer one has published.
-- A node of a release that makes no schemas leaves those that are published.
create or replace function txqueue.publish(work_types jsonb, its_start timestamptz default null) returns integer
language plpgsql volatile security definer
as $$
begin
    -- Before the rows, so that no claim overlooks a rate.
    if work_types @? '$[*].policy.group_rate' and not has_rates() then
        perform setval('has_rates', 1);
    end if;
    insert into work_type as known (work_type, queue, priority, weight, policy, published_at, schema)
    select each.work_type, each.queue, each.priority, each.weight, coalesce(each.policy, '{}'),
           coalesce(its_start, clock_timestamp()), each.schema
      from jsonb_to_recordset(work_types) as each (
               work_type text, queue text, priority smallint, weight integer, policy jsonb, schema jsonb)
     -- Only what changes: the clause on conflicts locks each row until the commit, and nodes that start together
     -- would wait for each other.
     where not exists (
        select from work_type as same
         where same.work_type = each.work_type
           and (same.published_at > its_start or (same.queue, same.priority, same.weight, same.policy, same.schema)
               is not distinct from (each.queue, each.priority, each.weight, coalesce(each.policy, '{}'), coalesce(each.schema, same.schema))))
     order by each.work_type
    on conflict (work_type) do update
       set queue = excluded.queue, priority = excluded.priority, weight = excluded.weight,
           policy = excluded.policy, published_at = excluded.published_at, schema = coalesce(excluded.schema, known.schema)
     where (known.published_at > its_start) is not true and (known.queue, known.priority, known.weight, known.policy, known.schema)
           is distinct from (excluded.queue, excluded.priority, excluded.weight, excluded.policy, coalesce(excluded.schema, known.schema));
    return make_published_ready();
end $$;

-- Looks at up to 1,000 jobs that no worker could read so far: those not looked at for ten seconds, or since a node
-- has registered. Makes them ready if a live node may be able to read them, has them wait if there is none, and
-- fails those whose time is over. Jobs that other sessions have locked are seen to later.
create or replace function txqueue.review_unread() returns void
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    each     unread_job;
    this     job;
    is_read  boolean;
    readied  integer := 0;
    failed   bigint[] := '{}';
    ended    bigint[] := '{}';
    looked   constant timestamptz := clock_timestamp();
begin
    for each in
        select * from unread_job
         where checked_at < greatest(looked - interval '10 seconds', (select max(started_at) from node_info where state = 'alive'))
         order by checked_at limit 1000 for update skip locked
    loop
        update unread_job set checked_at = looked where job_id = each.job_id;
        select * into this from job
         where job_id = each.job_id and (state = 'ready' or state = 'waiting' and waiting_for = 'version') for update skip locked;
        if not found then
            delete from unread_job where job_id = each.job_id and not is_live_job(job_id);
            continue;
        end if;
        if has_large_values(this) and find_damage(this.options, this.payload, null, null, this.error) is not null then
            perform set_config('queue_rows.are_moved', 'on', true);
            delete from job where job_id = this.job_id and state in ('ready', 'waiting');
            perform fail_if_damaged(this);
            continue;
        end if;
        is_read := has_reader(this.work_type, this.queue, this.options -> 'unread');
        continue when case when is_read then this.state = 'ready' else this.state = 'waiting' and each.until > looked end;
        perform set_config('queue_rows.are_moved', 'on', true);
        delete from job where job_id = this.job_id and state in ('ready', 'waiting');
        if not is_read and each.until <= looked then
            this := fail_unread(this);
            ended := ended || this.job_id;
            failed := failed || case when this.followed is not null then this.job_id end;
        else
            this := return_unread(this, null);
            readied := readied + is_read::integer;
        end if;
        insert into job values (this.*);
    end loop;
    if readied > 0 then
        perform wake_masters(readied);
    end if;
    failed := array_remove(failed, null);
    if failed <> '{}' then
        perform propagate_ends(failed, 'failed');
    end if;
    if ended <> '{}' and has_waiting_clients() then
        perform notify_ended_jobs(array_to_string(ended, ','));
    end if;
end $$;

-- Whether a live node may be able to read a job's payload: it serves the queue and the type, and has a version of
-- the type that is none of those that could not. A node reports the versions that its workers have, if those
-- differ from what it registered.
create or replace function txqueue.has_reader(its_work_type text, its_queue text, unread jsonb) returns boolean
language sql stable
as $$
    select exists (
        select from node_info as node, lateral (
               select count(*) as known, count(*) filter (where not unread ? each.name) as untried
                 from jsonb_array_elements_text(coalesce(node.report -> 'type_versions', to_jsonb(node.type_versions))) as each (name)
                where split_part(each.name, '#', 1) = its_work_type) as versions
         where node.state = 'alive' and node.heartbeat_at > clock_timestamp() - node.lease
           and its_queue = any (node.queues) and its_work_type = any (node.work_types)
           and (versions.untried > 0 or versions.known = 0))
$$;

-- Renews a node's lease and rescues the jobs of nodes whose lease has expired. Also makes jobs ready that
-- were enqueued before their type was published and committed after.
--
-- Returns whether this incarnation still owns its name (if not, it must drop its work), the state that
-- operators ordered, the nearest_nodes() to which it connects, the running jobs that it must cancel, as
-- [[assignment, job_id, who], ...], the other nodes of its host, as [[incarnation, pid], ...], in how
-- many seconds it may rescue the first of the nodes next to it, its place, from 0, among the so many nodes
-- that have room and serve the same queues and types (the place is null if it has no room), how many jobs it
-- rescued, how many nodes live, how many heartbeats its row has counted, the server and its timeline, which
-- are the same until a standby is promoted or the database moves to another server, the runs that it must end, in the form
-- of cancels, and what look_around() sees.
-- Of more than eight nodes only about eight a round do what concerns all, and those that find a node next to them dead.
create or replace function txqueue.heartbeat(
    its_incarnation integer, its_load double precision, its_report jsonb default '{}',
    out owned boolean, out its_state text, out peers jsonb, out cancels jsonb, out neighbours jsonb, out next_end double precision,
    out place integer, out places integer, out rescued integer, out nodes integer, out beats bigint, out server text,
    out restarts jsonb, out is_idle boolean, out work_in double precision, out schedule_in double precision)
language plpgsql volatile security definer
as $$
declare
    own     record;
    readied integer := 0;
    seen    record;
begin
    rescued := 0;
    update node_info as node
       set heartbeat_at = clock_timestamp(), beats = node.beats + 1, load = its_load, vouched_at = null,
           report = its_report || jsonb_build_object('login', session_user, 'role', coalesce(nullif(current_setting('role'), 'none'), session_user)),
           leased_at = case when heartbeat_at < clock_timestamp() - lease or vouched_at is not null then clock_timestamp()
                            else least(leased_at, clock_timestamp()) end
     where incarnation = its_incarnation and state in ('alive', 'draining')
    returning node.state, node.queues, node.work_types, node.beats into own;
    owned := found;
    beats := own.beats;
    -- What the owner of the schema may not read is left out.
    if has_function_privilege('pg_control_system()', 'execute') then
        server := (pg_control_system()).system_identifier;
    end if;
    server := concat_ws('/', server, left(pg_walfile_name(pg_current_wal_lsn()), 8));
    its_state := own.state;
    next_end := first_end(its_incarnation);
    nodes := (select count(*) from node_info where state in ('alive', 'draining'));
    -- The rescue of other nodes' jobs must not cost this node its own lease, so locks time out soon.
    perform set_config('lock_timeout', '1s', true);
    begin
        if random() * nodes < 8 or next_end <= 0 then
            if owned then
                rescued := rescue(its_incarnation);
            end if;
            readied := make_published_ready();
            perform review_unread();
            perform propagate_late_ends();
            perform free_late_groups();
            perform refresh_backlog_flags();
            perform forget_spent();
        end if;
        select found.cancels, found.restarts into cancels, restarts from find_cancellations(its_incarnation) as found;
    exception when lock_not_available or deadlock_detected or out_of_memory then
        raise warning 'txqueue: the next heartbeat tries again what this one could not do for others: %', sqlerrm;
        rescued := 0;
        cancels := '[]';
        restarts := '[]';
    end;
    select coalesce(jsonb_agg(jsonb_build_object(
               'node_id', node_id, 'name', name, 'incarnation', incarnation, 'address', address, 'port', port,
               'state', state, 'capacity', capacity, 'queues', queues, 'work_types', work_types,
               'silence', extract(epoch from clock_timestamp() - heartbeat_at) / extract(epoch from lease)) order by node_id), '[]')
      into peers from nearest_nodes(its_incarnation);
    if next_end <= 0 then
        next_end := first_end(its_incarnation);
    end if;
    select coalesce(jsonb_agg(jsonb_build_array(incarnation, pid)) filter (where report ->> 'host' = its_report ->> 'host'), '[]'),
           1 + count(*) filter (where is_like), count(*) filter (where is_like and incarnation < its_incarnation)
      into neighbours, places, place
      from (select incarnation, pid, report, state = 'alive' and load < 1 and queues = own.queues and work_types = own.work_types as is_like
              from node_info where state in ('alive', 'draining') and incarnation <> its_incarnation) as other;
    if its_load >= 1 then
        place := null;
    end if;
    seen := look_around(own.queues, own.work_types);
    is_idle := seen.is_idle;
    work_in := seen.work_in;
    schedule_in := seen.schedule_in;
    if rescued >= 5000 or readied >= 10000 then
        -- There may be more jobs, for a separate transaction.
        next_end := 0;
    end if;
end $$;

-- In how many seconds a node may rescue the first of the nodes next to it, the eight before it and the eight
-- after it by incarnation; null if there are none. It watches no others, or hundreds of nodes would all send
-- heartbeats, again and again, while one of them rescues a dead one.
create or replace function txqueue.first_end(its_incarnation integer) returns double precision
language sql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
    select extract(epoch from min(greatest(near.heartbeat_at, me.leased_at) + near.lease + lease_margin()) - clock_timestamp())
      from node_info as me,
           lateral ((select heartbeat_at, lease from node_info
                      where state in ('alive', 'draining') and incarnation < its_incarnation order by incarnation desc limit 8)
                    union all
                    (select heartbeat_at, lease from node_info
                      where state in ('alive', 'draining') and incarnation > its_incarnation order by incarnation limit 8)) as near
     where me.incarnation = its_incarnation and me.state in ('alive', 'draining')
$$;

-- How long after a lease its jobs are not rescued: in this time a node that cannot reach the database ends
-- jobs that must not run twice.
create or replace function txqueue.lease_margin() returns interval
language sql immutable parallel safe  -- inlined
as $$ select interval '1 second' $$;

-- Declares nodes dead whose lease has expired and returns their jobs to the queue, also jobs handed to dead
-- nodes since, as a transaction may commit such a job late. Returns how many jobs.
--
-- A node rescues others only if it has kept its own lease, by its own heartbeats, for as long as theirs
-- lasts: after an outage of the database all are late, and the first to reconnect must not take the jobs of
-- the others.
create or replace function txqueue.rescue(its_incarnation integer default null) returns integer
language plpgsql volatile security definer
set enable_seqscan = off
as $$
declare
    since    timestamptz;
    orphaned integer;
    rescued  integer;
    ended    integer[];
begin
    -- The silence of nodes whose last heartbeat is in the future, as the clock was set back since, counts from now: a dead
    -- one would be rescued only when the clock has caught up.
    update node_info
       set heartbeat_at = least(heartbeat_at, clock_timestamp()), leased_at = least(leased_at, clock_timestamp()),
           vouched_at = least(vouched_at, clock_timestamp())
     where incarnation in (
        select incarnation from node_info
         where state in ('alive', 'draining')
           and greatest(heartbeat_at, leased_at, vouched_at) > clock_timestamp() + interval '1 second'
           for update skip locked);
    since := coalesce((select leased_at from node_info where incarnation = its_incarnation), '-infinity');
    rescued := mark_dead(array(
        select incarnation from node_info
         where state in ('alive', 'draining') and greatest(heartbeat_at, since) < clock_timestamp() - lease - lease_margin()
           for update skip locked));
    -- They had more jobs than one transaction returns. Or a claim has committed after its node was declared
    -- dead, was stopped, or registered anew: its jobs count no death.
    ended := array(
        select former from node_info
         where former is not null and started_at > clock_timestamp() - lease - interval '1 minute'
        union
        select incarnation from node_info
         where state in ('dead', 'stopped') and ended_at > clock_timestamp() - lease - interval '1 minute');
    if random() < 0.03 then
        -- Any session may have locked a job until now, however long its node has been gone.
        ended := array(
            select distinct incarnation from job_assigned
             where incarnation not in (select incarnation from node_info where state in ('alive', 'draining')));
    elsif ended <> '{}' then
        -- No index has all assigned jobs by incarnation, as it would slow down each claim by an eighth.
        ended := array(select distinct incarnation from job_assigned where incarnation = any (ended));
    end if;
    for orphaned in
        -- From each node with handed jobs to the next by the index, without its other jobs.
        with recursive handed as (
            (select job.incarnation from job_assigned as job where job.handed is not null order by job.incarnation limit 1)
            union all
            select (select job.incarnation from job_assigned as job
                     where job.handed is not null and job.incarnation > handed.incarnation order by job.incarnation limit 1)
              from handed where handed.incarnation is not null
        )
        select handed.incarnation from handed
         where handed.incarnation is not null and not exists (
            select from node_info as node
             where node.incarnation = handed.incarnation and node.state in ('alive', 'draining'))
        union
        select unnest(ended)
    loop
        exit when rescued >= 5000;
        rescued := rescued + release(orphaned, '{}', false, true, at_most => 5000 - rescued);
    end loop;
    return rescued;
end $$;

-- Declares nodes dead, and returns some thousands of the jobs of each to the queue; rescue() continues.
-- Returns how many.
create or replace function txqueue.mark_dead(incarnations integer[]) returns integer
language plpgsql volatile
as $$
declare
    orphaned integer;
    rescued  integer := 0;
begin
    for orphaned in
        update node_info set state = 'dead', ended_at = clock_timestamp()
         where incarnation = any (incarnations) and state in ('alive', 'draining')
        returning incarnation
    loop
        rescued := rescued + release(orphaned, '{}', true, true, at_most => 5000);
    end loop;
    return rescued;
end $$;

-- The jobs that a node must cancel: [[assignment, job_id, who], ...], repeated until they have ended, and the runs
-- that it must end as their jobs were restarted, repeated for a minute. If a job to cancel has returned to the queue
-- or has moved to another node, the request follows it; this includes requests for dead nodes.
create or replace function txqueue.find_cancellations(its_incarnation integer, out cancels jsonb, out restarts jsonb)
language plpgsql volatile
set enable_seqscan = off
as $$
begin
    if not exists (select from request) then
        cancels := '[]';
        restarts := '[]';
        return;
    end if;
    -- The job has another run by now, which is not meant.
    delete from request
     where is_restart and at < clock_timestamp() - interval '1 minute' and is_stale_cancellation(request, its_incarnation);
    perform cancel_returned(its_incarnation);
    select coalesce(jsonb_agg(jsonb_build_array(assignment, job_id, who)) filter (where not is_restart), '[]'),
           coalesce(jsonb_agg(jsonb_build_array(assignment, job_id, who)) filter (where is_restart), '[]')
      into cancels, restarts from request where incarnation = its_incarnation;
end $$;

-- Whether a request is for a job that its node no longer holds, and the calling node must handle it: the
-- request's own node, or any node if that one is dead.
create or replace function txqueue.is_stale_cancellation(this request, its_incarnation integer) returns boolean
language sql stable
set enable_seqscan = off
as $$
    select (this.incarnation = its_incarnation or not exists (
              select from node_info as node
               where node.incarnation = this.incarnation and node.state in ('alive', 'draining')))
       and not exists (
              select from job_assigned as held
               where held.job_id = this.job_id and held.incarnation = this.incarnation
                 and held.assignment = this.assignment)
$$;

-- Cancels the jobs, all or some, that a request names and that their node, or a dead one, no longer holds. It waits for
-- no lock, as its callers hold others: for a job that is locked, the request is left for the next heartbeat.
create or replace function txqueue.cancel_returned(its_incarnation integer, ids bigint[] default null) returns void
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    gone bigint[];
    whos text[];
begin
    with stale as (
        delete from request where not is_restart and (ids is null or job_id = any (ids))
           and is_stale_cancellation(request, its_incarnation) returning job_id, who
    )
    select array_agg(job_id), array_agg(who) into gone, whos from stale;
    if gone is not null then
        perform cancel_jobs(gone, whos, '{waiting,ready}', false);
    end if;
end $$;

-- The live nodes to which a node connects: the eight before it and the eight after it in the circle of their
-- incarnations, so that each of two finds the other. All others, if they are no more than sixteen. What a node
-- spends on its peers does not grow with their number: each part is read from the index of incarnations, and
-- a part that goes beyond the circle's end is only read if the part before it is not enough.
create or replace function txqueue.nearest_nodes(its_incarnation integer) returns setof txqueue.node_info
language sql stable
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
    (select * from (
        (select * from node_info where state in ('alive', 'draining') and address is not null and incarnation < its_incarnation
          order by incarnation desc limit 8)
        union all
        (select * from node_info where state in ('alive', 'draining') and address is not null and incarnation > its_incarnation
          order by incarnation desc limit 8)) as before limit 8)
    union
    (select * from (
        (select * from node_info where state in ('alive', 'draining') and address is not null and incarnation > its_incarnation
          order by incarnation limit 8)
        union all
        (select * from node_info where state in ('alive', 'draining') and address is not null and incarnation < its_incarnation
          order by incarnation limit 8)) as after limit 8)
$$;

-- What a heartbeat sees of the queue while some master sleeps: whether no node has any job, in how many seconds a
-- job of these queues is due (0 if one is ready, null if none will ever be), and a schedule whose class the node
-- has, if its class declares it. By this an idle node polls for none of them. Only heartbeat() calls it.
--
-- A claim and a check of schedules read all that is due. This reads only what has become due lately, so as not to
-- read the dead rows before that: it finds what was committed since the heartbeat before.
create or replace function txqueue.look_around(
    its_queues text[], its_types text[], out is_idle boolean, out work_in double precision, out schedule_in double precision)
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
    lately constant timestamptz := clock_timestamp() - interval '10 minutes';
begin
    is_idle := false;
    if not has_sleeping_master() then
        return;
    end if;
    is_idle := not exists (select from job_assigned);
    work_in := case when exists (select from job_ready where queue = any (its_queues)) then 0 else next_due(lately) end;
    schedule_in := least(
        (select 0 from schedule
          where is_active and next_due = '-infinity' and (not is_declared or work_type = any (its_types)) limit 1),
        (select greatest(0, extract(epoch from next_due - clock_timestamp())) from schedule
          where is_active and next_due > lately and next_due < 'infinity' and (not is_declared or work_type = any (its_types))
          order by next_due limit 1),
        (select seconds from schedule where kind = 'cooldown' and is_active and next_due is null order by seconds limit 1));
end $$;

-- Rescues the jobs of nodes whose masters have certainly ended, before their leases expire. Only a live node
-- of the same host may call this. Returns how many jobs.
create or replace function txqueue.declare_dead(its_incarnation integer, ended integer[]) returns integer
language sql volatile security definer
as $$
    select mark_dead(array(
        select node.incarnation from node_info as node
          join node_info as me on me.report ->> 'host' = node.report ->> 'host'
         where node.incarnation = any (ended)
           and me.incarnation = its_incarnation and me.state in ('alive', 'draining')))
$$;

-- Drains a live node: it accepts no more jobs, passes on unstarted ones and finishes running ones, until it
-- is undrained or restarted. Returns whether that changed anything.
create or replace function txqueue.drain_node(its_name text, who text) returns boolean
language plpgsql volatile security definer
as $$
declare
    former text := lock_live_node(its_name);
begin
    update node_info set state = 'draining' where name = its_name and state = 'alive';
    if not exists (select from node_info where state = 'alive') then
        perform setval('asleep', 0);
    end if;
    perform note_action(who, 'drain', 'node ' || its_name);
    return former = 'alive';
end $$;

-- Locks a live node and returns its state; refuses any other node.
create or replace function txqueue.lock_live_node(its_name text) returns text
language plpgsql volatile
as $$
declare
    its_state text;
begin
    select state into its_state from node_info
     where name = its_name and state in ('alive', 'draining') and heartbeat_at >= clock_timestamp() - lease
       for update;
    if not found then
        perform refuse(format('no live node is named %s', its_name), 'see which live: txqueue nodes');
    end if;
    return its_state;
end $$;

-- Whether another node that serves a queue and a type is less loaded than the one of an incarnation, by a tenth of
-- its capacity, and has room for a job of some weight. The loads are those of the last heartbeats.
create or replace function txqueue.has_lighter_node(
    its_incarnation integer, its_load double precision, its_queue text, its_type text, its_weight integer) returns boolean
language sql stable
as $$
    select exists (
        select from node_info as other
         where is_reachable(other, other.lease / 2) and other.incarnation <> its_incarnation and other.load < its_load - 0.1
           and (1 - other.load) * other.capacity >= its_weight
           and coalesce((other.report ->> 'workers')::integer, 1) > coalesce((other.report ->> 'unable')::integer, 0)
           and serves_type(other, its_queue, its_type))
$$;

-- Whether a node may be given jobs: it is alive, and has renewed its lease itself within a time.
create or replace function txqueue.is_reachable(node txqueue.node_info, within interval) returns boolean
language sql volatile  -- inlined
as $$ select node.state = 'alive' and node.heartbeat_at > clock_timestamp() - within and node.vouched_at is null $$;

-- Whether a node serves a queue and a type.
create or replace function txqueue.serves_type(node txqueue.node_info, its_queue text, its_type text) returns boolean
language sql immutable  -- inlined
as $$ select its_queue = any (node.queues) and its_type = any (node.work_types) $$;

-- The identity of this queue: of its server, database and table too, so that a restored copy of the database is
-- another queue. A client joins, and a command acts through, only a node of the same queue.
create or replace function txqueue.identity() returns uuid
language plpgsql stable security definer
as $$
declare
    server bigint := 0;
begin
    begin
        select system_identifier into server from pg_control_system();
    exception when insufficient_privilege then
        -- A hosted server may hide it; the oids below still tell copies of one server apart.
        null;
    end;
    return (select md5(concat_ws(' ', server, database.oid, 'setting'::regclass::oid, setting.identity))::uuid
              from setting, pg_database as database where database.datname = current_database());
end $$;

-- Marks a node as draining or stopped; the jobs of a stopped one return to the queue. While no node is alive,
-- no master counts as asleep, so that enqueues send no NOTIFY.
create or replace function txqueue.leave(its_incarnation integer, its_state text) returns integer
language plpgsql volatile security definer
as $$
begin
    update node_info set state = its_state, ended_at = case when its_state = 'stopped' then clock_timestamp() end
     where incarnation = its_incarnation and state in ('alive', 'draining');
    if not exists (select from node_info where state = 'alive') then
        perform setval('asleep', 0);
    end if;
    if its_state = 'stopped' then
        return release(its_incarnation, '{}', false, true);
    end if;
    return 0;
end $$;

-- The nodes with their current status: whether the lease has expired, even if the node was not declared dead
-- yet, how many jobs each holds, which right it lacks, and what
-- restores that if no grant does.
create or replace view txqueue.node_status as
select node.node_id, node.name, node.hostname, node.pid, node.port, node.incarnation, node.started_at,
       node.heartbeat_at,
       case when node.state in ('alive', 'draining') and node.heartbeat_at < clock_timestamp() - node.lease
            then 'dead' else node.state end as state,
       node.load, node.capacity, coalesce(held.jobs, 0) as jobs, node.queues, node.work_types,
       extract(epoch from node.lease)::double precision as lease, node.version, node.address, node.report,
       lost.what as lacking_right, lost.remedy as right_remedy
  from txqueue.node_info as node
  left join (select incarnation, count(*) as jobs from txqueue.job_assigned group by incarnation) as held
    on held.incarnation = node.incarnation
  -- Once for each role, of which thousands of ended nodes have few.
  left join (select login, role, what, remedy
               from (select distinct report ->> 'login' as login, report ->> 'role' as role
                       from txqueue.node_info where state <> 'stopped') as each,
                    lateral txqueue.lacking_right(jsonb_build_object('login', login, 'role', role))) as lost
    on node.state <> 'stopped' and lost.login = node.report ->> 'login' and lost.role = node.report ->> 'role';
comment on view txqueue.node_status is 'The nodes and their current status.';

-- Renews the leases of nodes that cannot reach the database, for a peer that they have just answered over
-- their own connection. For at most six consecutive leases, then they are presumed dead. Returns the nodes to
-- notify.
create or replace function txqueue.renew_for_peer(its_incarnation integer, heard integer[]) returns integer[]
language plpgsql volatile security definer
as $$
declare
    kept integer[];
begin
    with renewed as (
        update node_info as node
           set heartbeat_at = clock_timestamp(), vouched_at = coalesce(node.vouched_at, clock_timestamp())
         where node.incarnation = any (heard) and node.state in ('alive', 'draining')
           and coalesce(node.vouched_at, 'infinity') > clock_timestamp() - 6 * node.lease
           and exists (select from node_info as me
                        where me.incarnation = its_incarnation and me.state in ('alive', 'draining')
                          and me.heartbeat_at > clock_timestamp() - me.lease)
        returning node.incarnation
    )
    select coalesce(array_agg(incarnation), '{}') into kept from renewed;
    return kept;
end $$;

-- Lets a draining node accept jobs again, unless it is stopping. Returns whether that changed anything.
create or replace function txqueue.undrain_node(its_name text, who text) returns boolean
language plpgsql volatile security definer
as $$
declare
    former text := lock_live_node(its_name);
begin
    if exists (select from node_info where name = its_name and state = 'draining' and (report -> 'is_ending') = 'true') then
        perform refuse(format('node %s is stopping', its_name), 'start it again, or another node');
    end if;
    update node_info set state = 'alive' where name = its_name and state = 'draining';
    perform pg_notify('txqueue', '');
    perform note_action(who, 'undrain', 'node ' || its_name);
    return former = 'draining';
end $$;
