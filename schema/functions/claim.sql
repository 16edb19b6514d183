-- The claim: what programs call comes first, then its steps and what they use. The other two claims, claim_ready()
-- and claim_given(), are in ready.sql.
--
-- The mark "inlined" keeps the loader from giving a function settings of its own, which would cost more than the
-- call: steps in plpgsql have those of the claim that calls them, which pin the plans and the search path.

-- The claim of a master: promotes due jobs, then takes ready jobs for this node in rank order, up to
-- free_weight, as chunks of at most chunk_jobs, at least one for each worker if there are that many.
--
-- Returns one row per chunk. The last row has no assignment, but
--   due_in: seconds until the next job that waits for time is due.
--   seen_at: the moment up to which due jobs were promoted.
--   reached, reached_job: the rank and number up to which all ready jobs are claimed; null if all ready jobs are
--     claimed. The rank is text, because not every client can read every moment. A caller that claims again at
--     once passes them as from_rank and from_job, so that the dead rows before them are not read again; a job
--     enqueued there since is found by the next claim that does not pass them.
--   last_tenant: to be passed as after_tenant in the next claim; it is set if not all tenants had a turn.
--   searched: seconds that it took longer than its jobs account for, as it read many ready jobs that this node
--     may not take, or dead rows that an old snapshot keeps; null if it took less than 1 ms, or if there are tenants,
--     a reserve, or limits of one of several queues.
--   left_job: the first heavy job (a tenth of a worker's capacity, and more than 1) that was left to another node,
--     because that has less load than the caller, whose load is given as its_load. Null if none was left so.
--   passed, passed_job: if it searched and reached is null, the first of the jobs that were ready, or the last of those
--     that are left if that took over 10 ms. A caller that claims again soon may pass them as from_rank and from_job.
--
-- Its steps: next_due and promote; open_claim (room, limits, turns); for each turn find_heads (the first job of each
-- lane and queue); then, repeatedly, bound_step (limits), take_step (lock, admit groups, fit, separate suspects, assign) and
-- find_head (the next job of that lane and queue); charge_control, if there are limits; measure_search.
--
-- Lanes are read one after the other, the one with the smallest rank first, up to the next lane's smallest rank or a
-- sixteenth of the batch beyond it, so that lanes that interleave finely cost no more than sixteen steps.
--
-- Tenants take their turns first, then jobs without a tenant. Where a queue's reserve leaves no room for its ordinary
-- jobs, those that may use it, jobs of priority 7 and higher whose tenant is neither paused nor limited, go on in rank
-- order among the jobs without a tenant; last, they overtake jobs that do not fit. ahead has the part of free_weight by
-- which workers may hold more than they run at a time, as they end jobs quickly; ordinary jobs of such a queue, which
-- may be long, do not take of it.
--
-- work_types has the names of the node's types and the versions of their fields, as type#version. A job that one
-- of these versions could not read (its options name it as unread) is left to other nodes.
--
-- A job that was running when two processes died is a suspect, which runs in a process without other jobs:
-- ten together, and from the third death on alone, so that the job that kills is found and no other is
-- blamed. A claim takes suspects once, as a chunk that is marked as alone, unless the caller accepts no
-- suspects now. A caller with room in one worker gets either suspects or the jobs that rank before them.
create or replace function txqueue.next_job(
    its_node integer, its_incarnation integer, queues text[], work_types text[],
    free_weight integer, largest integer, capacity integer, chunk_jobs integer, workers integer,
    since timestamptz default null, take_suspects boolean default true, from_rank timestamptz default '-infinity',
    after_tenant text default '', from_job bigint default 0, its_load double precision default null, ahead integer default 0,
    turn_length integer default 100)
returns table (lane smallint, assignment bigint, jobs integer, weight bigint, chunk text, alone boolean,
               due_in double precision, seen_at timestamptz, reached text, last_tenant text, reached_job bigint,
               searched double precision, passed text, passed_job bigint, left_job bigint)
language plpgsql volatile security definer
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set plan_cache_mode = force_generic_plan
as $$
declare
    step        constant integer := greatest(1, free_weight / 16);
    -- About so many jobs of full groups leave the ready partition in one claim.
    most_parked constant integer := 1000;
    began       timestamptz;
    opened      opened_claim;
    limits      open_queue[];
    room        integer;
    most_steps  integer;
    steps       integer := 0;
    deaths      integer := case when take_suspects then 32767 else 1 end;
    total       integer := 0;
    parked      integer := 0;
    -- Behind the jobs of one queue, a claim may go on: those of another one may be left by its limit.
    may_go_on   boolean := cardinality(queues) = 1;
    -- Whether the last step emptied the only source of jobs, and whether no step was cut short.
    is_last     boolean := false;
    is_all      boolean := true;
    is_busy     boolean;
    known_turn  bigint;
    -- The turns of tenants, of jobs without a tenant, and of the reserve.
    turn        claim_turn;
    part        integer;
    by_turn     integer;
    exhausted   text[] := '{}';
    -- The queues of which only the jobs that may use the reserve can be taken.
    reserved    text[] := '{}';
    -- One step: jobs of one lane and queue.
    heads       ready_head[];
    foremost    ready_head;
    head        ready_head;
    of_head     claim_turn;
    is_ordinary boolean;
    its_rank    timestamptz;
    -- The heads at which a limit or a reserve has left jobs.
    left_heads  ready_head[];
    place       integer;
    bounds      step_bounds;
    its         claim_step;
    chunks      claimed_chunk[];
    given       claimed_chunk;
begin
    -- First, because a session that changes a limit must see all earlier claims, and waits for them without
    -- other locks.
    lock table claiming in row share mode;
    if coalesce(pg_sequence_last_value('txqueue.has_late_ends'), 0) = 1 then
        perform propagate_late_ends();
    end if;

    -- Promote due jobs.
    seen_at := clock_timestamp();
    due_in := next_due(since);
    if due_in <= 0 then
        seen_at := clock_timestamp();
        perform promote(since, greatest(free_weight, 1000));
        due_in := next_due(since);
        if due_in <= 0 then
            -- The next claim searches from a minute before seen_at: it must find the oldest job left, so a second is spared.
            seen_at := least(seen_at, clock_timestamp() + make_interval(secs => due_in + 59));
        end if;
    end if;

    began := clock_timestamp();
    opened := open_claim(its_incarnation, queues, free_weight, ahead, after_tenant, from_rank, from_job);
    room := opened.room;
    limits := opened.limits;
    queues := opened.queues;
    may_go_on := (may_go_on or not opened.is_limited) and cardinality(opened.turns) = 1;
    last_tenant := opened.last_tenant;
    most_steps := 60 + 4 * cardinality(opened.turns);

    -- Take jobs from one lane and queue after the other, turn by turn.
    foreach turn in array opened.turns loop
        exit when room <= 0 or steps >= most_steps;
        continue when turn.part <= 0 or turn.tenant = any (exhausted);
        part := coalesce(turn.part, room);
        by_turn := 0;
        if turn.is_reserve then
            queues := array(select each.queue from unnest(limits) as each where each.kept > 0);
        end if;
        -- A step uses up one head, so that no later one than these is reached.
        heads := find_heads(turn, queues, work_types, from_rank, from_job, most_steps - steps + 1);
        foremost := heads[1];
        if opened.is_limited and turn.tenant is null and not turn.is_reserve then
            -- Those of tenants, too, which had no turn for them.
            reserved := array(select each.queue from unnest(limits) as each where each.kept > 0 and each.kept + ahead >= room);
            left_heads := array(select each from unnest(heads) as each where each.queue = any (reserved));
            heads := turn_to_reserve(heads, reserved, work_types, most_steps);
        end if;

        while room > 0 and part > 0 and steps < most_steps and not is_last and cardinality(heads) > 0 loop
            steps := steps + 1;
            head := heads[1];
            heads := heads[2 :];
            head.until_rank := heads[1].rank;
            head.until_job := heads[1].job_id;
            of_head := turn;
            of_head.is_reserve := turn.is_reserve or head.queue = any (reserved);
            is_ordinary := of_head.tenant is null and not of_head.is_reserve;
            if is_ordinary then
                its_rank := head.rank;
                reached_job := head.job_id;
            end if;

            place := array_position(opened.queues, head.queue);
            bounds := bound_step(limits[place], of_head, room, part, ahead, largest, capacity, opened.largest, opened.total);
            if bounds.jobs <= 0 then
                is_all := false;
                queues := array_remove(queues, head.queue);
                left_heads := case when is_ordinary then left_heads || head else left_heads end;
                if bounds.room <= 0 and turn.tenant is null then
                    reserved := reserved || head.queue;
                    heads := turn_to_reserve(heads, array[head.queue], work_types, most_steps);
                else
                    heads := array(select each from unnest(heads) as each where each.queue <> head.queue);
                end if;
                continue;
            end if;

            -- The loader repeats this branch for each lane.
            case head.lane
                when 0 then its := take_step_0(
                    head, of_head, bounds, work_types, step => step, most_deaths => deaths, room => room, part => part, largest => largest,
                    capacity => capacity, chunk_jobs => chunk_jobs, workers => workers,
                    is_idle => opened.is_limited and total = 0 and free_weight - ahead >= opened.capacity, most_parked => most_parked - parked,
                    its_node => its_node, its_incarnation => its_incarnation, its_load => its_load);
            end case;
            -- Nothing else was ready: if all is taken, there is no need to search again.
            is_last := head.until_rank is null and its.found < bounds.jobs and its.is_whole and turn.tenant is null
                       and not opened.is_limited and not opened.is_narrow;
            is_all := is_all and not its.is_cut;
            left_job := coalesce(left_job, its.left_job);
            parked := parked + its.parked;
            if parked >= most_parked then
                -- The next claim, which follows at once, parks the others.
                most_steps := steps;
                is_all := false;
            end if;
            exit when its.is_blocked;
            -- A claim takes suspects once. A single worker gets nothing else beside them, nor what ranks after them.
            deaths := case when its.has_suspects then 1 else deaths end;
            room := case when its.has_suspects and workers < 2 then 0 else room end;

            chunks := chunks || its.chunks;
            total := total + its.taken;
            by_turn := by_turn + its.taken;
            room := room - its.weight;
            part := part - its.weight;
            if opened.is_limited then
                limits[place].taken := limits[place].taken + its.taken;
            end if;

            if its.found = 0 then
                -- All before the head of another lane was passed over.
                head.rank := head.until_rank;
                head.job_id := head.until_job;
            elsif its.taken = its.found then
                head.rank := its.last_rank;
                head.job_id := its.last_job;
                if is_ordinary then
                    -- No ready job is left before the last of them, nor before the head of another lane.
                    its_rank := least(head.rank, head.until_rank);
                    reached_job := case when (head.until_rank, head.until_job) < (head.rank, head.job_id) then head.until_job else head.job_id end;
                end if;
            end if;
            if not its.is_drained then
                head := find_head(of_head, head, work_types);
                if head.lane is not null then
                    heads := in_order(heads || head);
                end if;
            end if;
        end loop;

        if turn.tenant is not null and part > 0 and room > 0 then
            exhausted := exhausted || turn.tenant;
        end if;
        if turn.tenant is not null and opened.is_limited and by_turn > 0 then
            perform charge_control('tenant', turn.tenant, by_turn);
        end if;
    end loop;

    -- Charge the limits; tell what is left, and whether this master may sleep.
    if opened.is_limited then
        perform charge_control('queue', each.queue, each.taken)
           from unnest(limits) as each where each.taken > 0 and each.jobs is not null;
    end if;
    if cardinality(opened.turns) > 1 then
        is_all := is_all and not exists (select from unnest(opened.turns) as each where each.tenant <> all (exhausted));
    end if;
    if not is_all then
        its_rank := coalesce(its_rank, '-infinity');
    elsif is_last then
        its_rank := null;
    end if;
    if cardinality(left_heads) > 0 then
        head := (in_order(left_heads))[1];
        if (head.rank, head.job_id) < (its_rank, reached_job) then
            its_rank := head.rank;
            reached_job := head.job_id;
        end if;
    end if;
    reached := its_rank;
    if steps >= most_steps then
        due_in := 0;
    else
        due_in := least(due_in, opened.opens_in);
        -- If the only ready job was taken, there is no stream of jobs: the next enqueue may wake this master.
        is_busy := total > 1 or (total = 1 and reached is not null);
        known_turn := coalesce(pg_sequence_last_value('asleep') >> 1, 0);
        if free_weight > 0 and (is_busy = has_sleeping_master() or 2 * turn_length < known_turn or turn_length > 2 * known_turn) then
            -- A claim that has taken nothing does not wait for the disk: after a crash, the next one says it again.
            if pg_current_xact_id_if_assigned() is null then
                perform set_config('synchronous_commit', 'off', true);
            end if;
            perform setval('asleep', 2 * turn_length + case when is_busy then 0 else 1 end);
        end if;
    end if;
    if clock_timestamp() - began > interval '1 millisecond' and may_go_on then
        select * into searched, passed, passed_job
          from measure_search(began, total + parked, queues, foremost, has_left => reached is not null);
    end if;

    -- The rows.
    foreach given in array coalesce(chunks, '{}') loop
        lane := given.lane;
        assignment := given.assignment;
        jobs := given.jobs;
        weight := given.weight;
        chunk := given.chunk;
        alone := given.alone;
        return next;
    end loop;
    lane := null; assignment := null; jobs := 0; weight := 0; chunk := null; alone := false;
    return next;
end $$;

-- What a claim may look at; takes the keys of limited queues and tenants, without those that others hold, until the
-- commit. Returns the room of the node (0 if it is not alive) and its capacity; its queues, of many only those
-- with ready jobs, and their limits, if there are any; the turns that their jobs take; what ends of jobs can make free if
-- is_narrow (see attainable_room()); and the seconds after which a limit allows more.
create or replace function txqueue.open_claim(
    its_incarnation integer, queues text[], free_weight integer, ahead integer, after_tenant text,
    from_rank timestamptz, from_job bigint) returns txqueue.opened_claim
language plpgsql volatile  -- inlined
as $$
declare
    its    txqueue.opened_claim;
    report jsonb;
    opened record;
begin
    select me.capacity, me.report into its.capacity, report
      from txqueue.node_info as me where me.incarnation = its_incarnation and me.state = 'alive';
    its.room := case when found then free_weight else 0 end;
    its.is_limited := false;
    if its.room > 0 and txqueue.has_limits() then
        -- Limits of groups are those of admit_groups().
        its.is_limited := exists (select from txqueue.control where kind = 'tenant')
                       or exists (select from txqueue.control where kind = 'queue' and key = any (queues));
    end if;
    its.queues := case when cardinality(queues) > 1000 then txqueue.ready_queues(queues, from_rank, from_job) else queues end;
    its.turns := array[row(null, null, false)::txqueue.claim_turn];
    its.is_narrow := its.room > 0 and its.room - ahead < its.capacity and (its.is_limited or coalesce(report -> 'left', '{}') <> '{}');
    if its.is_narrow then
        select free.largest, free.total into its.largest, its.total from txqueue.attainable_room(report, its.capacity) as free;
        its.is_narrow := its.largest is not null or its.total is not null;
    end if;
    if its.is_limited then
        -- Those that are neither paused nor at their limit.
        select coalesce(array_agg(row(
                   allowed.name, allowed.jobs,
                   -- Some capacity is left to other jobs, however large the reserve.
                   greatest(0, least(ceil(coalesce(allowed.reserve, 0) * its.capacity), its.capacity - 1)),
                   allowed.is_counted, 0)::txqueue.open_queue) filter (where allowed.jobs is distinct from 0), '{}'),
               min(allowed.opens_in)
          into its.limits, its.opens_in
          from txqueue.compute_allowances('queue', its.queues) as allowed;
        its.queues := array(select each.queue from unnest(its.limits) as each);
        its.turns := its.turns || array(select row(null, null, true)::txqueue.claim_turn from unnest(its.limits) as each where each.kept > 0 limit 1);
    end if;
    if its.room > 0 and coalesce(pg_sequence_last_value('txqueue.has_tenants'), 0) = 1 then
        opened := txqueue.tenant_turns(its.queues, its.room, after_tenant);
        its.turns := opened.turns || its.turns;
        its.opens_in := least(its.opens_in, opened.opens_in);
        its.last_tenant := opened.last;
    end if;
    return its;
end $$;

-- Those of many queues that have ready jobs, those without a tenant from a position on; all of them if jobs of very many
-- queues, also of other nodes, are ready. It goes from each queue with jobs to the next one by the index, so that a claim
-- costs what is ready rather than what its node serves. Its callers pin the plan and the search path: next_job(), by
-- open_claim(), and ahead_facts().
create or replace function txqueue.ready_queues(queues text[], from_rank timestamptz, from_job bigint) returns text[]
language plpgsql volatile  -- inlined
as $$
declare
    -- A step costs as much as it does to see in one lane that half as many queues as these have no job.
    most  constant integer := cardinality(queues) / 16;
    lanes constant smallint[] := txqueue.lanes_in_use();
    found_ text[];
begin
    with recursive walk (is_of_tenants, queue) as (
        select is_of_tenants, '' collate "C" from unnest('{true,false}'::boolean[]) as is_of_tenants
        union all
        select walk.is_of_tenants, case when walk.is_of_tenants then
                   (select ready.queue from txqueue.job_ready as ready
                     where ready.lane = any (lanes) and ready.tenant is not null and ready.queue > walk.queue
                     order by ready.queue limit 1)
               else
                   (select ready.queue from txqueue.job_ready as ready
                     where ready.lane = any (lanes) and ready.tenant is null and ready.queue > walk.queue
                       and (ready.rank, ready.job_id) >= (from_rank, from_job)
                     order by ready.queue limit 1)
               end
          from walk where walk.queue is not null
    )
    select array_agg(each.queue) into found_ from (select queue from walk limit most) as each;
    return case when cardinality(found_) = most then queues
           else array(select each.queue from unnest(queues) as each (queue) where each.queue in (select unnest(found_))) end;
end $$;

-- The lanes whose tables of ready jobs are not empty files: that a table is costs less to see than that each of many
-- queues has no job in it.
create or replace function txqueue.lanes_in_use() returns smallint[]
language sql volatile  -- inlined
as $$
    select array(select lane from unnest('{0,1,2,3,4,5,6,7}'::smallint[]) as each (lane)
                  where pg_relation_size(format('txqueue.job_ready_%s', lane)) > 0)
$$;

-- What ends of jobs can make free on a node that reports that threads of ended jobs keep a part of its workers, or that
-- some can start no job: the largest weight in one worker, and the weight of all. Each is null if that is all of it.
create or replace function txqueue.attainable_room(
    report jsonb, its_capacity integer, out largest integer, out total integer)
language plpgsql immutable
as $$
declare
    of_worker integer := (report -> 'room' ->> 'capacity')::integer;
    unable    integer := coalesce((report -> 'closed' ->> 'blocked')::integer, 0) + coalesce((report -> 'closed' ->> 'stuck')::integer, 0);
begin
    -- A node that reported no worker at all may have one since.
    largest := nullif((report -> 'room' ->> 'attainable')::integer, 0);
    largest := case when largest < of_worker then largest end;
    total := ((report ->> 'workers')::integer - unable) * of_worker - coalesce((report -> 'left' ->> 'weight')::integer, 0);
    total := case when total < its_capacity then total end;
end $$;

-- The first ready job of each lane and queue that a turn may take, from a position on, in rank order up to a
-- number.
--
-- One statement for each kind of turn, because each has its own partial index: with a union of the three, a
-- claim that found nothing cost 1.42 times as much.
create or replace function txqueue.find_heads(
    turn txqueue.claim_turn, queues text[], work_types text[], from_rank timestamptz, from_job bigint, at_most integer)
returns txqueue.ready_head[]
language plpgsql volatile  -- inlined
as $$
#variable_conflict use_column
declare
    lanes smallint[] := case when cardinality(queues) > 8 then txqueue.lanes_in_use() else '{0,1,2,3,4,5,6,7}' end;
begin
    if turn.is_reserve then
        return array(
            select row(each.lane, head.queue, head.rank, head.job_id, null, null)::txqueue.ready_head
              from unnest(queues) as wanted (queue), unnest(lanes) as each (lane),
                   lateral (select ready.queue, ready.rank, ready.job_id from txqueue.job_ready as ready
                             where ready.lane = each.lane and ready.queue = wanted.queue and ready.priority >= 7
                               and ready.work_type = any (work_types) and (ready.options -> 'unread' ?| work_types) is not true
                               and (ready.tenant is null or txqueue.is_unlimited_tenant(ready.tenant))
                             order by ready.rank, ready.job_id limit 1) as head
             order by head.rank, head.job_id limit at_most);
    elsif turn.tenant is not null then
        return array(
            select row(each.lane, head.queue, head.rank, head.job_id, null, null)::txqueue.ready_head
              from unnest(queues) as wanted (queue), unnest(lanes) as each (lane),
                   lateral (select ready.queue, ready.rank, ready.job_id from txqueue.job_ready as ready
                             where ready.lane = each.lane and ready.queue = wanted.queue and ready.tenant = turn.tenant
                               and ready.work_type = any (work_types) and (ready.options -> 'unread' ?| work_types) is not true
                             order by ready.rank, ready.job_id limit 1) as head
             order by head.rank, head.job_id limit at_most);
    end if;
    return array(
        select row(each.lane, head.queue, head.rank, head.job_id, null, null)::txqueue.ready_head
          from unnest(queues) as wanted (queue), unnest(lanes) as each (lane),
               lateral (select ready.queue, ready.rank, ready.job_id from txqueue.job_ready as ready
                         where ready.lane = each.lane and ready.queue = wanted.queue and ready.tenant is null
                           and ready.work_type = any (work_types) and (ready.options -> 'unread' ?| work_types) is not true
                           and (ready.rank, ready.job_id) >= (from_rank, from_job)
                         order by ready.rank, ready.job_id limit 1) as head
         order by head.rank, head.job_id limit at_most);
end $$;

-- Heads in rank order, where some queues have those of the jobs that may use their reserve in place of all others.
create or replace function txqueue.turn_to_reserve(
    heads txqueue.ready_head[], reserved text[], work_types text[], at_most integer) returns txqueue.ready_head[]
language plpgsql volatile  -- inlined
as $$
begin
    return txqueue.in_order(
        array(select each from unnest(heads) as each where each.queue <> all (reserved))
        || txqueue.find_heads(row(null, null, true)::txqueue.claim_turn, reserved, work_types, null, null, at_most));
end $$;

-- Heads in rank order.
create or replace function txqueue.in_order(heads txqueue.ready_head[]) returns txqueue.ready_head[]
language plpgsql immutable  -- inlined
as $$
begin
    return case when cardinality(heads) > 1 then
               array(select each from unnest(heads) as each order by each.rank, each.job_id)
           else heads end;
end $$;

-- What a step of a claim may take from one queue: the most jobs, the room for them, the heaviest (what can never start on
-- this node must not keep the others waiting), and whether they are counted. limits are null if the queue has none;
-- node_largest and node_total are those of attainable_room().
create or replace function txqueue.bound_step(
    limits txqueue.open_queue, turn txqueue.claim_turn, room integer, part integer, ahead integer, largest integer, capacity integer,
    node_largest integer, node_total integer) returns txqueue.step_bounds
language plpgsql immutable  -- inlined
as $$
declare
    kept constant integer := case when turn.is_reserve then 0 else coalesce(limits.kept, 0) end;
    its  txqueue.step_bounds;
begin
    its.room := room - kept - case when kept > 0 then ahead else 0 end;
    its.jobs := least(part, its.room, limits.jobs - limits.taken);
    its.heaviest := greatest(least(largest, its.room), least(node_largest, node_total - kept, capacity));
    its.heaviest := case when its.heaviest < capacity then its.heaviest else 2147483647 end;
    its.is_counted := case when limits.is_counted or (limits.queue is not null and turn.tenant is not null) then 1 end;
    return its;
end $$;

-- Takes the jobs of one step of a claim from one lane and queue, in rank order: locks them, parks jobs of busy groups, leaves
-- those that do not fit, and assigns the others in chunks of at most chunk_jobs, at least one for each worker if there are
-- that many; first suspects, in a chunk of their own. Ordinary jobs are only locked, summed up and assigned.
--
-- found: how many it locked, the last of which is last_job. taken and weight: how many of them it took, and their weight.
-- is_drained: the lane has no more jobs for this turn. is_whole: no job was parked or left because of its group. is_cut:
-- jobs were left that another claim may take. is_blocked: not even the first job fits. has_suspects: some of those that
-- fit are suspects. left_job: the first heavy job that is left to a node with less load than its_load, if that is given;
-- others behind it are taken.
--
-- One function per lane, which calls those of its lane.
create or replace function txqueue.take_step_0(
    head txqueue.ready_head, turn txqueue.claim_turn, bounds txqueue.step_bounds, work_types text[], step integer, most_deaths integer,
    room integer, part integer, largest integer, capacity integer, chunk_jobs integer, workers integer, is_idle boolean, most_parked integer,
    its_node integer, its_incarnation integer, its_load double precision) returns txqueue.claim_step
language plpgsql volatile  -- inlined
as $$
#variable_conflict use_column
declare
    octets_limit constant bigint := 4194304;
    its          txqueue.claim_step;
    chunk        txqueue.claimed_chunk;
    -- Where the head may be passed over, no job behind it overtakes the head of another lane.
    is_exact     constant boolean := bounds.heaviest < 2147483647 or most_deaths < 32767;
    tids         tid[] := txqueue.lock_ready_0(
                     head, turn, work_types, bounds.jobs, case when is_exact then 0 else step end, most_deaths, bounds.heaviest);
    jobs         integer := cardinality(tids);
    size         integer;
    weight       bigint;
    heaviest     integer;
    octets       bigint;
    grouped      integer;
    suspects     tid[];
    gravest      tid[];
    others       tid[];
    first        tid;
    admitted     record;
    parts        record;
begin
    select sum(weight), max(weight), sum(txqueue.payload_octets(payload) + coalesce(octet_length(options::text), 0)), count("group"),
           array_agg(ctid) filter (where deaths > 1), array_agg(ctid) filter (where deaths > 2),
           max(rank), max(job_id) filter (where ctid = tids[jobs])
      into weight, heaviest, octets, grouped, suspects, gravest, its.last_rank, its.last_job
      from txqueue.job_ready_0 where ctid = any (tids);
    its.found := jobs;
    its.taken := 0;
    its.weight := 0;
    its.parked := 0;
    its.is_drained := case when is_exact then jobs < bounds.jobs and head.until_rank is null
                           else jobs < least(step, bounds.jobs) end;
    its.is_whole := true;
    its.is_cut := false;

    if grouped > 0 then
        admitted := txqueue.admit_groups_0(tids, most_parked);
        tids := admitted.taken;
        its.parked := admitted.parked;
        its.is_whole := cardinality(tids) is not distinct from jobs;
        -- If jobs were left and none of them parked, other sessions hold their keys: this claim need not look again.
        its.is_drained := case when its.is_whole then its.is_drained else its.parked = 0 end;
    end if;
    if its_load is not null and heaviest > 1 and heaviest * 10 >= capacity then
        select min(job_id) filter (where is_left), array_agg(tid order by rank, job_id) filter (where not is_left)
          into its.left_job, others
          from (select ctid as tid, rank, job_id, weight > 1 and weight * 10 >= capacity and txqueue.has_lighter_node(
                           its_incarnation, its_load, head.queue, work_type, least(weight, capacity)) as is_left
                  from txqueue.job_ready_0 where ctid = any (tids) offset 0) as mine;
        if its.left_job is not null then
            tids := others;
            its.is_cut := true;
            -- The next claim looks at what is behind these.
            its.is_drained := true;
        end if;
    end if;
    if cardinality(tids) > 0
       and (weight > least(bounds.room, part) or heaviest > largest or octets > octets_limit) then
        its.is_cut := true;
        first := tids[1];
        tids := txqueue.fit_capacity_0(tids, bounds.room, part, largest, capacity, octets_limit);
        if tids is null and is_idle then
            -- A job heavier than the rest of a node beside the reserve: an idle node takes it.
            tids := txqueue.fit_capacity_0(array[first], room, part, largest, capacity, octets_limit);
        end if;
        its.is_blocked := tids is null;
    end if;
    if suspects && tids then
        its.has_suspects := true;
        parts := txqueue.separate_suspects(tids, suspects, gravest, workers);
        suspects := parts.alone;
        tids := parts.rest;
        its.is_cut := its.is_cut or parts.is_cut;
    else
        suspects := null;
    end if;

    size := least(chunk_jobs, greatest(1, (cardinality(tids) + workers - 1) / workers));
    while suspects is not null or cardinality(tids) > 0 loop
        chunk := txqueue.assign_0(head.lane, coalesce(suspects, tids[1 : size]), its_node, its_incarnation, bounds.is_counted, suspects is not null);
        its.chunks := its.chunks || chunk;
        its.taken := its.taken + chunk.jobs;
        its.weight := its.weight + chunk.weight;
        tids := case when chunk.alone then tids else tids[size + 1 :] end;
        suspects := null;
    end loop;
    return its;
end $$;

-- Locks the first ready jobs of one turn in one lane and queue, in rank order from the head to the head of
-- another lane. If those are fewer than a step, it locks up to a step beyond, so that lanes that interleave
-- finely do not cost a step for each job. Suspects are jobs that were running when two processes died;
-- most_deaths excludes them. most_weight excludes jobs that this node cannot start, however many others end.
--
-- One statement for each kind of turn: each has its own partial index, and PostgreSQL does not lock rows of a
-- union. One function per lane, so that its plans are kept; the plans are pinned, because the planner's own
-- choice ran six times slower.
create or replace function txqueue.lock_ready_0(
    head txqueue.ready_head, turn txqueue.claim_turn, work_types text[], at_most integer, step integer, most_deaths integer,
    most_weight integer)
returns tid[]
language plpgsql volatile  -- inlined
as $$
#variable_conflict use_column
declare
    until_rank timestamptz := coalesce(head.until_rank, 'infinity');
    until_job  bigint := coalesce(head.until_job, 9223372036854775807);
    locked     tid[];
begin
    loop
        if turn.is_reserve then
            locked := array(select ctid from job_ready_0
                where queue = head.queue and priority >= 7 and work_type = any (work_types) and deaths <= most_deaths
                  and weight <= most_weight
                  and (options -> 'unread' ?| work_types) is not true
                  and (tenant is null or txqueue.is_unlimited_tenant(tenant))
                  and (rank, job_id) >= (head.rank, head.job_id) and (rank, job_id) <= (until_rank, until_job)
                order by rank, job_id limit at_most for update skip locked);
        elsif turn.tenant is not null then
            locked := array(select ctid from job_ready_0
                where queue = head.queue and tenant = turn.tenant and work_type = any (work_types) and deaths <= most_deaths
                  and weight <= most_weight
                  and (options -> 'unread' ?| work_types) is not true
                  and (rank, job_id) >= (head.rank, head.job_id) and (rank, job_id) <= (until_rank, until_job)
                order by rank, job_id limit at_most for update skip locked);
        else
            locked := array(select ctid from job_ready_0
                where queue = head.queue and tenant is null and work_type = any (work_types) and deaths <= most_deaths
                  and weight <= most_weight
                  and (options -> 'unread' ?| work_types) is not true
                  and (rank, job_id) >= (head.rank, head.job_id) and (rank, job_id) <= (until_rank, until_job)
                order by rank, job_id limit at_most for update skip locked);
        end if;
        exit when until_rank = 'infinity' or cardinality(locked) >= least(step, at_most);
        at_most := least(step, at_most);
        until_rank := 'infinity';
        until_job := 9223372036854775807;
    end loop;
    return locked;
end $$;

-- Returns which rows locked in one ready lane fit: in rank order up to the room there is and a sum of payload
-- bytes, none heavier than the largest room of one worker. A job heavier than capacity counts as capacity.
-- The first job fits if it fits a worker, even if its payload is large or it is heavier than the part of the
-- room for this step. One function per lane.
create or replace function txqueue.fit_capacity_0(
    locked tid[], room integer, part integer, largest integer, capacity integer, octets_limit bigint)
returns tid[]
language plpgsql volatile
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
    return (
        select array_agg(tid order by place)
          from (select ctid as tid,
                       row_number() over running as place,
                       sum(least(weight, capacity)) over running as total,
                       max(least(weight, capacity)) over running as heaviest,
                       sum(payload_octets(payload) + coalesce(octet_length(options::text), 0)) over running as octets
                  from (select ctid, * from job_ready_0 where ctid = any (locked) offset 0) as mine -- as in assign()
                window running as (order by rank, job_id)) as numbered
         where total <= room and heaviest <= largest and ((total <= part and octets <= octets_limit) or place = 1));
end $$;

-- Separates suspects from other jobs, all given in rank order. alone are those for a process without other
-- jobs: the first ten suspects, or the first one if it was running when three processes died. rest are the
-- others. One worker does not get both: jobs that rank before the suspects go first, and is_cut says that
-- jobs were left.
create or replace function txqueue.separate_suspects(
    tids tid[], suspects tid[], gravest tid[], workers integer, out alone tid[], out rest tid[], out is_cut boolean)
language plpgsql volatile
as $$
declare
    first bigint;
begin
    select array_agg(tid order by place), min(place) into alone, first
      from unnest(tids) with ordinality as each (tid, place) where tid = any (suspects);
    is_cut := alone is not null and workers < 2;
    if is_cut then
        rest := case when first > 1 then tids[1 : first - 1] end;
    else
        rest := array(select tid from unnest(tids) with ordinality as each (tid, place) where tid <> all (suspects) order by place);
    end if;
    alone := case
        when is_cut and first > 1 then null
        when alone[1] = any (gravest) then alone[1 : 1]
        else array(select tid from unnest(alone[1 : 10]) with ordinality as each (tid, place)
                    where (tid = any (gravest)) is not true order by place) end;
    alone := nullif(alone, '{}');
end $$;

-- Moves rows of one ready lane, locked by the caller, to the assigned lane as one chunk, and returns the
-- chunk in rank order. Charges the rates of groups. One function per lane, so that its plan is kept. Three
-- plain statements over locked rows, because the rows that a deletion returns would be copied twice.
create or replace function txqueue.assign_0(
    lane smallint, tids tid[], its_node integer, its_incarnation integer, is_counted smallint, is_alone boolean)
returns txqueue.claimed_chunk
language plpgsql volatile  -- inlined
as $$
#variable_conflict use_column
declare
    number bigint := txqueue.next_assignment();
    its    txqueue.claimed_chunk;
    -- Of each job with a group, where there may be rates.
    groups  text[];
    types   text[];
    weights integer[];
begin
    insert into txqueue.job_assigned_0 (job_id, rank, not_before, not_after, enqueued_at, assigned_at,
        assignment, node_id, incarnation, weight, priority, attempt, deaths, lane, state, work_type,
        queue, "group", tenant, counted, options, payload, error, followed)
    select job_id, rank, not_before, not_after, enqueued_at, clock_timestamp(),
        number, its_node, its_incarnation, weight, priority, attempt, deaths, lane, 'assigned', work_type,
        queue, "group", tenant, is_counted, options, payload, error, followed
      from txqueue.job_ready_0 where ctid = any (tids);
    select assign_0.lane, number, count(*), sum(weight),
           txqueue.chunk_of(string_agg(
               txqueue.chunk_entry(job_id, work_type, attempt, weight, payload,
                                   txqueue.job_terms(options, coalesce("group", is_counted::text), not_after)),
               ',' order by rank, job_id)), is_alone
      into its.lane, its.assignment, its.jobs, its.weight, its.chunk, its.alone
      -- Offset 0 has the rows read by their ctid. With the statistics of a small table, the planner would read the
      -- whole table in the order of an index, and keep that plan while the table grows.
      from (select * from txqueue.job_ready_0 where ctid = any (tids) offset 0) as mine;
    if txqueue.has_rates() or txqueue.has_limits() then
        select array_agg("group"), array_agg(work_type), array_agg(weight) into groups, types, weights
          from (select * from txqueue.job_ready_0 where ctid = any (tids) offset 0) as mine
         where "group" is not null;
    end if;
    delete from txqueue.job_ready_0 where ctid = any (tids);
    if groups is not null then
        perform txqueue.charge_groups(groups, types, weights);
    end if;
    return its;
end $$;

-- The number of a new assignment: the next of the sequence, above 22 bits of the clock. A database restored from a
-- dump, or a standby that lagged, takes numbers of the sequence again; by these bits the new assignment still has
-- another token than the lost one, whose jobs may be running.
create or replace function txqueue.next_assignment() returns bigint
language sql volatile  -- inlined
as $$
    select (nextval('txqueue.assignment') << 22) + ((date_part('epoch', clock_timestamp()) * 1000000)::bigint & 4194303)
$$;

-- A chunk: the JSON text in which jobs travel to a worker, which is the first to parse it. It names the
-- fields once, before the entries that chunk_entry() has made, joined by commas. txqueue/model/assignment.py
-- parses it and documents the fields.
create or replace function txqueue.chunk_of(entries text) returns text
language sql volatile  -- inlined
as $$
    select '{"fields":["job_id","work_type","attempt","weight","payload","terms"],"jobs":[' || entries || ']}'
$$;

-- One job of a chunk, as JSON text: the values of the fields that chunk_of() names, in that order. attempt
-- counts the failed runs; the entry has the number of the next run.
create or replace function txqueue.chunk_entry(
    job_id bigint, work_type text, attempt smallint, weight integer, payload jsonb, terms text) returns text
language sql volatile  -- inlined
as $$
    select '[' || job_id || ',"' || work_type || '",' || attempt + 1 || ',' || weight || ',' || payload::text || ',' || terms || ']'
$$;

-- The terms of a job for its worker, as JSON text: the options it was enqueued with, whether it counts for a
-- limit (of a group, a queue or a tenant), and how many seconds are left until its not_after.
create or replace function txqueue.job_terms(options jsonb, "group" text, not_after timestamptz) returns text
language sql volatile  -- inlined
as $$
    select case
        when ("group" is null and not_after is null) or jsonb_typeof(options) <> 'object' then coalesce(options::text, 'null')
        else (coalesce(options, '{}') || jsonb_strip_nulls(jsonb_build_object(
            'grouped', case when "group" is not null then true end,
            'left', case when isfinite(not_after) then extract(epoch from not_after - clock_timestamp()) end)))::text end
$$;

-- The first ready job that a turn may take of the lane and queue of a head, from that head on: the head itself,
-- if it was left, or the next one. Null if there is none. See find_heads().
create or replace function txqueue.find_head(
    turn txqueue.claim_turn, head txqueue.ready_head, work_types text[]) returns txqueue.ready_head
language plpgsql volatile  -- inlined
as $$
#variable_conflict use_column
declare
    following txqueue.ready_head;
begin
    if turn.is_reserve then
        select ready.lane, ready.queue, ready.rank, ready.job_id into following.lane, following.queue, following.rank, following.job_id
          from txqueue.job_ready as ready
         where ready.lane = head.lane and ready.queue = head.queue and ready.priority >= 7 and ready.work_type = any (work_types)
           and (ready.tenant is null or txqueue.is_unlimited_tenant(ready.tenant))
           and (ready.options -> 'unread' ?| work_types) is not true
           and (ready.rank, ready.job_id) >= (head.rank, head.job_id)
         order by ready.rank, ready.job_id limit 1;
    elsif turn.tenant is not null then
        select ready.lane, ready.queue, ready.rank, ready.job_id into following.lane, following.queue, following.rank, following.job_id
          from txqueue.job_ready as ready
         where ready.lane = head.lane and ready.queue = head.queue and ready.tenant = turn.tenant and ready.work_type = any (work_types)
           and (ready.options -> 'unread' ?| work_types) is not true
           and (ready.rank, ready.job_id) >= (head.rank, head.job_id)
         order by ready.rank, ready.job_id limit 1;
    else
        select ready.lane, ready.queue, ready.rank, ready.job_id into following.lane, following.queue, following.rank, following.job_id
          from txqueue.job_ready as ready
         where ready.lane = head.lane and ready.queue = head.queue and ready.tenant is null and ready.work_type = any (work_types)
           and (ready.options -> 'unread' ?| work_types) is not true
           and (ready.rank, ready.job_id) >= (head.rank, head.job_id)
         order by ready.rank, ready.job_id limit 1;
    end if;
    return following;
end $$;

-- How long a claim that began at a moment searched: longer than the jobs that it took or parked account for. If it left
-- none, rank and job_id are the position from which the next claim may go on; foremost is the first job that was ready.
create or replace function txqueue.measure_search(
    began timestamptz, jobs integer, queues text[], foremost txqueue.ready_head, has_left boolean,
    out seconds double precision, out rank timestamptz, out job_id bigint)
language plpgsql volatile  -- inlined
as $$
begin
    -- A job that is taken, or parked, accounts for 50 microseconds.
    began := began + make_interval(secs => 5e-5 * jobs);
    if not has_left then
        rank := foremost.rank;
        job_id := foremost.job_id;
        if clock_timestamp() - began > interval '10 milliseconds' then
            -- The last of the ready jobs without a tenant, from that one on.
            select last.rank, last.job_id into measure_search.rank, measure_search.job_id
              from unnest(queues) as wanted (queue), unnest('{0,1,2,3,4,5,6,7}'::smallint[]) as each (lane),
                   lateral (select ready.rank, ready.job_id from txqueue.job_ready as ready
                             where ready.lane = each.lane and ready.queue = wanted.queue and ready.tenant is null
                               and (ready.rank, ready.job_id) >= (coalesce(foremost.rank, '-infinity'), coalesce(foremost.job_id, 0))
                             order by ready.rank desc, ready.job_id desc limit 1) as last
             order by last.rank desc, last.job_id desc limit 1;
            measure_search.rank := coalesce(measure_search.rank, foremost.rank);
            measure_search.job_id := coalesce(measure_search.job_id, foremost.job_id);
        end if;
    end if;
    seconds := greatest(0, extract(epoch from clock_timestamp() - began));
end $$;

-- Fails the jobs that cannot be given to a worker, each with the reason, after a statement has failed for one of
-- them: first those that are assigned to the node, then those that are ready or due in some queues, up to
-- 10,000 in rank order; if it is none of these, damaged ones of all, up to 10,000. Returns their numbers.
create or replace function txqueue.set_aside(its_incarnation integer, queues text[]) returns bigint[]
language plpgsql volatile security definer
as $$
declare
    place    record;
    this     job;
    fault    text;
    is_found boolean := false;
    failed   bigint[] := '{}';
begin
    for place in
        select false as is_other, state, lane, job_id from job_assigned where incarnation = its_incarnation
        union all
        (select false, state, lane, job_id from job_ready where queue = any (queues) order by rank, job_id limit 10000)
        union all
        (select false, state, lane, job_id from job_waiting
          where queue = any (queues) and waiting_for = 'time' and not_before <= clock_timestamp() order by not_before limit 10000)
        union all
        -- A job that the statement had to move: it follows one that ended, or was of a node that has died.
        (select true, state, lane, job_id from job
          where state in ('waiting', 'ready', 'assigned') and has_large_values(job) limit 10000)
    loop
        exit when place.is_other and is_found;
        fault := find_fault(place.state, place.lane, place.job_id, not place.is_other);
        continue when fault is null;
        perform from job where state = place.state and lane = place.lane and job_id = place.job_id for update skip locked;
        continue when not found;
        perform set_config('queue_rows.are_moved', 'on', true);
        delete from job where state = place.state and lane = place.lane and job_id = place.job_id returning * into this;
        is_found := fail_faulty(this, 'it cannot be given to a worker', fault) and (is_found or not place.is_other);
        failed := failed || this.job_id;
    end loop;
    if failed <> '{}' then
        perform propagate_late_ends();
        perform free_late_groups();
        if has_waiting_clients() then
            perform notify_ended_jobs(array_to_string(failed, ','));
        end if;
    end if;
    return failed;
end $$;

-- The error with which a job cannot be moved because its row is damaged, or, if is_own, cannot be given to a worker
-- either, as its text does not fit into the encoding of the session, or is too large; null if it can. Errors of the
-- server itself are not caught.
create or replace function txqueue.find_fault(its_state job_state, its_lane smallint, its_id bigint, is_own boolean) returns text
language plpgsql volatile
as $$
begin
    -- The error moves with the row; octet_length() would not read it.
    perform num_nulls(jsonb_typeof(payload), jsonb_typeof(options), jsonb_typeof(result), jsonb_typeof(progress), length(error)),
            case when is_own then octet_length(convert_to(
                chunk_entry(job_id, work_type, attempt, weight, payload, job_terms(options, "group", not_after)), pg_client_encoding())) end
       from job where state = its_state and lane = its_lane and job_id = its_id;
    return null;
exception when data_exception or internal_error or program_limit_exceeded or system_error then
    return sqlerrm;
end $$;

-- The largest weight of jobs that can start on a node beside a reserve once others have ended: its claims pass over
-- heavier ones, as next_job() says. Null if it can start any.
create or replace function txqueue.most_attainable(report jsonb, its_capacity integer, reserve double precision) returns integer
language plpgsql immutable
as $$
declare
    kept constant integer := greatest(0, least(ceil(coalesce(reserve, 0) * its_capacity), its_capacity - 1));
    room record;
begin
    if coalesce(report -> 'left', '{}') = '{}' and coalesce(report -> 'closed', '{}') = '{}' then
        return null;
    end if;
    room := attainable_room(report, its_capacity);
    return case when least(room.largest, room.total - kept) < (report -> 'room' ->> 'capacity')::integer
                then least(room.largest, room.total - kept) end;
end $$;

-- Moves the first ready jobs of one lane to the assigned lane as one chunk, for claim_ready(), unless one of
-- them is not ordinary (in a group, a suspect, heavier than 1 or with a large payload), or there is a control,
-- a pause for example. One function per lane, so that its plans are kept.
create or replace function txqueue.take_first_0(
    its_node integer, its_incarnation integer, queues text[], work_types text[], at_most integer,
    out assignment bigint, out jobs integer, out chunk text, out is_ordinary boolean)
language plpgsql volatile  -- inlined
as $$
#variable_conflict use_column
declare
    its_queue text := queues[1];
    tids      tid[];
    is_usual  boolean;
    number    bigint;
begin
    if cardinality(queues) > 1 then
        select wanted.queue into its_queue
          from unnest(queues) as wanted (queue),
               lateral (select ready.rank, ready.job_id from txqueue.job_ready_0 as ready
                         where ready.queue = wanted.queue and ready.tenant is null and ready.work_type = any (work_types)
                           and (ready.options -> 'unread' ?| work_types) is not true
                         order by ready.rank, ready.job_id limit 1) as first
         order by first.rank, first.job_id limit 1;
    end if;
    select array_agg(first.tid), bool_and(first.is_usual) and not exists (select from txqueue.control where kind in ('queue', 'tenant'))
      into tids, is_usual
      from (select ctid as tid, "group" is null and deaths < 2 and weight = 1 and pg_column_size(payload) < 2000 as is_usual
              from txqueue.job_ready_0
             where queue = its_queue and tenant is null and work_type = any (work_types)
               and (options -> 'unread' ?| work_types) is not true
             order by rank, job_id limit at_most for update skip locked) as first;
    is_ordinary := is_usual is not false;
    jobs := 0;
    if is_usual then
        number := txqueue.next_assignment();
        with gone as (
            delete from txqueue.job_ready_0
             where ctid = any (tids)
               and exists (select from txqueue.node_info where incarnation = its_incarnation and state = 'alive')
            returning *
        ), put as (
            insert into txqueue.job_assigned_0 (job_id, rank, not_before, not_after, enqueued_at, assigned_at,
                assignment, node_id, incarnation, weight, priority, attempt, deaths, lane, state, work_type,
                queue, options, payload, error, followed)
            select job_id, rank, not_before, not_after, enqueued_at, clock_timestamp(),
                number, its_node, its_incarnation, weight, priority, attempt, deaths, lane, 'assigned', work_type,
                queue, options, payload, error, followed
              from gone
        )
        select number, count(*),
               txqueue.chunk_of(string_agg(txqueue.chunk_entry(job_id, work_type, attempt, weight, payload,
                   txqueue.job_terms(options, null, not_after)), ',' order by rank, job_id))
          into assignment, jobs, chunk from gone;
    end if;
end $$;
