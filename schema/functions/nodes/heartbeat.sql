-- Renews a node's lease and rescues the jobs of nodes whose lease has expired. Also makes jobs ready that
-- were enqueued before their type was published and committed after.
--
-- Returns whether this incarnation still owns its name (if not, it must drop its work), the state that
-- operators ordered, the nearest_nodes() to which it connects, the running jobs that it must cancel, as
-- [[assignment, job_id, who], ...], the other nodes of its host, as [[incarnation, pid], ...], in how
-- many seconds it may rescue the first of the nodes next to it, its place, from 0, among the so many nodes
-- that have room and serve the same queues and types (the place is null if it has no room), how many jobs it
-- rescued, how many nodes live, how many heartbeats its row has counted, the server_identity(), and the runs that it must end, in the form of cancels, and what look_around() sees.
-- Of more than eight nodes only about eight a round do what concerns all, and those that find a node next to them dead.
create or replace function txqueue.heartbeat(
    its_incarnation integer, its_load double precision, its_report jsonb default '{}',
    out owned boolean, out its_state text, out peers jsonb, out cancels jsonb, out neighbours jsonb, out next_end double precision,
    out place integer, out places integer, out rescued integer, out nodes integer, out beats bigint, out server text,
    out restarts jsonb, out is_idle boolean, out work_in double precision, out schedule_in double precision)
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
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
    server := server_identity();
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
