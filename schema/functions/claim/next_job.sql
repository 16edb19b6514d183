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
-- Its steps: next_due and promote_due; open_claim (room, limits, turns); for each turn find_heads (the first job of each
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
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
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
        select * into due_in, seen_at from promote_due(since, greatest(free_weight, 1000));
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
