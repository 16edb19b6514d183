-- The claim of a master: promotes due jobs, then takes ready jobs for this node in rank order, up to
-- free_weight, as chunks of at most chunk_jobs, at least one for each worker if there are that many.
--
-- Its steps are next_due and promote_due; open_queues, if there are limits; tenant_turns, if there are tenants;
-- for each turn find_heads (the first job of each lane and queue); then, repeatedly, choose_ready (lock, admit
-- groups, fit, separate suspects), assign (one chunk) and find_head (the next job of that lane and queue);
-- charge_control, if there are limits. Jobs without tenant, limit, group or suspect pass only next_due,
-- find_heads, choose_ready and assign.
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
--     may not take, or dead rows that an old snapshot keeps; null if it took less than 1 ms, or if there are tenants
--     or limits.
--   left_job: the first heavy job (a tenth of a worker's capacity, and more than 1) that was left to another node,
--     because that has less load than the caller, whose load is given as its_load. Null if none was left so.
--   passed, passed_job: if it searched and reached is null, the first of the jobs that were ready, or the last of those
--     that are left if that took over 10 ms. A caller that claims again soon may pass them as from_rank and from_job.
--
-- Lanes are read one after the other, the one with the smallest rank first, up to the next lane's smallest
-- rank or a sixteenth of the batch beyond it, so that lanes that interleave finely cost no more than sixteen
-- steps.
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
    after_tenant text default '', from_job bigint default 0, its_load double precision default null, ahead integer default 0)
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
    step       constant integer := greatest(1, free_weight / 16);
    room       integer := free_weight;
    deaths     integer := case when take_suspects then 32767 else 1 end;
    steps      integer := 0;
    most_steps integer := 64;
    total      integer := 0;
    -- About so many jobs of full groups leave the ready partition in one claim.
    to_park    integer := 1000;
    is_last    boolean := false;
    is_all     boolean := true;
    is_busy    boolean;
    began      timestamptz;
    -- The limits of queues, if there are any.
    is_held    boolean;
    its_capacity integer;
    report     jsonb;
    -- Whether not all of it can be free, and how much can.
    is_narrow  boolean := false;
    attainable record;
    held       record;
    open       open_queue[];
    served     text[];
    place      integer;
    -- The turns of tenants, of jobs without a tenant, and of the reserve.
    tenants    record;
    turns      claim_turn[] := array[row(null, null, false)::claim_turn];
    turn       claim_turn;
    of_reserve constant claim_turn := row(null, null, true)::claim_turn;
    -- The queues of which only the jobs that may use the reserve can be taken.
    reserved   text[] := '{}';
    of_head    claim_turn;
    part       integer;
    by_turn    integer;
    exhausted  text[] := '{}';
    -- One step: jobs of one lane and queue.
    heads      ready_head[];
    head       ready_head;
    foremost   ready_head;
    most       integer;
    kept       integer := 0;
    open_room  integer;
    heaviest   integer;
    is_counted smallint;
    chosen     record;
    alone_tids tid[];
    tids       tid[];
    size       integer;
    given      record;
    taken      integer;
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

    -- Open the queues with limits, and order the turns.
    began := clock_timestamp();
    select me.capacity, exists (select from control), me.report into its_capacity, is_held, report
      from node_info as me where me.incarnation = its_incarnation and me.state = 'alive';
    room := case when found then room else 0 end;
    is_held := room > 0 and is_held;
    if room > 0 and room - ahead < its_capacity and (is_held or coalesce(report -> 'left', '{}') <> '{}') then
        attainable := attainable_room(report, its_capacity);
        is_narrow := attainable.largest is not null or attainable.total is not null;
    end if;
    if is_held then
        held := open_queues(queues, its_capacity);
        open := held.open;
        due_in := least(due_in, held.opens_in);
        served := array(select each.queue from unnest(open) as each);
        queues := served;
    end if;
    if room > 0 and coalesce(pg_sequence_last_value('txqueue.has_tenants'), 0) = 1 then
        tenants := tenant_turns(queues, room, after_tenant);
        turns := tenants.turns || turns;
        due_in := least(due_in, tenants.opens_in);
        last_tenant := tenants.last;
        most_steps := 60 + 4 * cardinality(turns);
    end if;
    if is_held and exists (select from unnest(open) as each where each.kept > 0) then
        turns := turns || row(null, null, true)::claim_turn;
    end if;

    -- Take jobs from one lane and queue after the other, turn by turn.
    foreach turn in array turns loop
        continue when turn.tenant = any (exhausted);
        if turn.is_reserve then
            queues := array(select each.queue from unnest(open) as each where each.kept > 0);
        end if;
        part := coalesce(turn.part, room);
        by_turn := 0;
        of_head := turn;
        if room > 0 and part > 0 and steps < most_steps and not is_last then
            -- A step uses up one head, so that no later one than these is reached.
            heads := find_heads(turn, queues, work_types, from_rank, from_job, most_steps - steps + 1);
            foremost := heads[1];
            if is_held and turn.tenant is null and not turn.is_reserve then
                -- Those of tenants, too, which had no turn for them.
                reserved := array(select each.queue from unnest(open) as each where each.kept > 0 and each.kept + ahead >= room);
                heads := array(select each from unnest(heads) as each where each.queue <> all (reserved))
                    || find_heads(of_reserve, reserved, work_types, from_rank, from_job, most_steps - steps + 1);
                heads := array(select each from unnest(heads) as each order by each.rank, each.job_id);
            end if;
        end if;
        while room > 0 and part > 0 and steps < most_steps and not is_last and cardinality(heads) > 0 loop
            steps := steps + 1;
            head := heads[1];
            heads := heads[2 :];
            head.until_rank := heads[1].rank;
            head.until_job := heads[1].job_id;
            if is_held then
                of_head := case when head.queue = any (reserved) then of_reserve else turn end;
            end if;
            if of_head.tenant is null and not of_head.is_reserve then
                reached := head.rank;
                reached_job := head.job_id;
            end if;

            -- Apply the limits of its queue.
            most := least(room, part);
            open_room := room;
            if is_held then
                place := array_position(served, head.queue);
                kept := case when of_head.is_reserve then 0 else open[place].kept end;
                open_room := room - kept - case when kept > 0 then ahead else 0 end;
                most := least(most, open[place].jobs - open[place].taken, open_room);
                if most <= 0 then
                    heads := array(select each from unnest(heads) as each where each.queue <> head.queue);
                    queues := array_remove(queues, head.queue);
                    is_all := false;
                    if open_room <= 0 and turn.tenant is null then
                        reserved := reserved || head.queue;
                        heads := heads || find_heads(of_reserve, array[head.queue], work_types, from_rank, from_job, most_steps);
                        heads := array(select each from unnest(heads) as each order by each.rank, each.job_id);
                    end if;
                    continue;
                end if;
                is_counted := case when open[place].is_counted or turn.tenant is not null then 1 end;
            end if;

            -- What can never start here must not keep the others waiting.
            heaviest := 2147483647;
            if is_narrow then
                heaviest := greatest(least(largest, open_room), least(attainable.largest, attainable.total - kept));
                heaviest := case when heaviest < capacity then heaviest else 2147483647 end;
            end if;

            case head.lane
                when 0 then chosen := choose_ready_0(
                    head, of_head, work_types, at_most => most, step => step, most_deaths => deaths, most_weight => heaviest,
                    room => room, open_room => open_room, part => part, largest => largest, capacity => capacity,
                    workers => workers, is_idle => is_held and total = 0 and free_weight - ahead >= its_capacity,
                    most_parked => to_park, its_incarnation => its_incarnation, its_load => its_load);
            end case;
            -- Nothing else was ready: if all is taken, there is no need to search again.
            is_last := head.until_rank is null and chosen.jobs < most and chosen.is_whole and turn.tenant is null and not is_held
                       and not is_narrow;
            is_all := is_all and not chosen.is_cut;
            left_job := coalesce(left_job, chosen.left_job);
            if chosen.parked > 0 then
                to_park := to_park - chosen.parked;
                if to_park <= 0 then
                    -- The next claim, which follows at once, parks the others.
                    most_steps := steps;
                    is_all := false;
                end if;
            end if;
            exit when chosen.is_blocked;
            -- A claim takes suspects once. A single worker gets nothing else beside them, nor what ranks after them.
            deaths := case when chosen.has_suspects then 1 else deaths end;
            room := case when chosen.has_suspects and workers < 2 then 0 else room end;

            -- Assign the jobs in chunks, suspects in one of their own.
            alone_tids := chosen.alone;
            tids := chosen.tids;
            size := least(chunk_jobs, greatest(1, (cardinality(tids) + workers - 1) / workers));
            taken := 0;
            while alone_tids is not null or cardinality(tids) > 0 loop
                lane := head.lane;
                alone := alone_tids is not null;
                case head.lane
                    when 0 then given := assign_0(coalesce(alone_tids, tids[1 : size]), its_node, its_incarnation, is_counted);
                end case;
                assignment := given.assignment;
                jobs := given.jobs;
                weight := given.weight;
                chunk := given.chunk;
                return next;
                tids := case when alone then tids else tids[jobs + 1 :] end;
                alone_tids := null;
                room := room - weight;
                part := part - weight;
                taken := taken + jobs;
            end loop;
            total := total + taken;
            by_turn := by_turn + taken;
            if is_held then
                open[place].taken := open[place].taken + taken;
            end if;
            if chosen.jobs > 0 and taken = chosen.jobs and of_head.tenant is null and not of_head.is_reserve then
                -- No ready job is left before the last of them, nor before the head of another lane.
                from_rank := chosen.last_rank;
                from_job := chosen.last_job;
                if (head.until_rank, head.until_job) < (from_rank, from_job) then
                    from_rank := head.until_rank;
                    from_job := head.until_job;
                end if;
                reached := from_rank;
                reached_job := from_job;
            end if;
            if not chosen.is_drained then
                if taken = chosen.jobs then
                    head.rank := chosen.last_rank;
                    head.job_id := chosen.last_job;
                end if;
                head := find_head(of_head, head, work_types);
                if head.lane is not null then
                    heads := array(select each from unnest(heads || head) as each order by each.rank, each.job_id);
                end if;
            end if;
        end loop;
        if turn.tenant is not null then
            exhausted := case when part > 0 and room > 0 then exhausted || turn.tenant else exhausted end;
            if is_held and by_turn > 0 then
                perform charge_control('tenant', turn.tenant, by_turn);
            end if;
        end if;
    end loop;

    -- Charge the limits; tell what is left, and whether this master may sleep.
    if is_held then
        perform charge_control('queue', each.queue, each.taken)
           from unnest(open) as each where each.taken > 0 and each.jobs is not null;
    end if;
    if cardinality(turns) > 1 then
        is_all := is_all and not exists (select from unnest(turns) as each where each.tenant <> all (exhausted));
    end if;
    if not is_all then
        reached := coalesce(reached, '-infinity');
    elsif is_last then
        reached := null;
    end if;
    if steps >= most_steps then
        due_in := 0;
    else
        -- If the only ready job was taken, there is no stream of jobs: the next enqueue may wake this master.
        is_busy := total > 1 or (total = 1 and reached is not null);
        if free_weight > 0 and is_busy = has_sleeping_master() then
            perform setval('asleep', case when is_busy then 0 else 1 end);
        end if;
    end if;
    if clock_timestamp() - began > interval '1 millisecond' and not is_held and cardinality(turns) = 1 then
        -- A job that is taken, or parked, accounts for 50 microseconds.
        began := began + make_interval(secs => 5e-5 * (total + 1000 - to_park));
        if reached is null then
            passed := foremost.rank;
            passed_job := foremost.job_id;
            if clock_timestamp() - began > interval '10 milliseconds' then
                select coalesce(last.rank, foremost.rank), coalesce(last.job_id, foremost.job_id) into passed, passed_job
                  from find_last(queues, foremost) as last;
            end if;
        end if;
        searched := greatest(0, extract(epoch from clock_timestamp() - began));
    end if;
    lane := null; assignment := null; jobs := 0; weight := 0; chunk := null; alone := false;
    return next;
end $$;
