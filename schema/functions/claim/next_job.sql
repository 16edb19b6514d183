-- What masters call: promotes what is due, then takes ready jobs for this node in rank order, up
-- to free_weight, as chunks of at most chunk_jobs, at least one for each worker where there are that
-- many. Returns one row a chunk; the last row has no
-- assignment and says in due_in how many seconds to wait for the next job that waits for time, in
-- seen_at the moment up to which due jobs were promoted, and in reached and reached_job the rank and number
-- before which nothing was left. A caller that claims again at once passes them as from_rank and from_job, so
-- that the dead rows before them are not read again; what has come in there since is found by the next claim
-- without them. The rank is null when all that was ready is taken, and text because not every client can read
-- every moment.
-- last_tenant is to be passed as after_tenant the next time: more tenants have jobs than get a turn.
--
-- Lanes are taken one after the other, the one with the smallest rank first and up to the next
-- lane's smallest, or a sixteenth of the batch beyond it, so that lanes that interleave finely
-- cost no more than sixteen steps.
--
-- Tenants take their turns first, then comes what is no tenant's, and last, where a queue keeps a
-- reserve, what may use it: jobs of a priority from 7 on.
--
-- A job that was running when two processes died is a suspect, which is to run in a process that runs no others:
-- some ten together, and from the third death on by itself, so that the one that kills is found and no other is blamed
-- for it. They are taken once a claim, as a chunk that is marked alone, and none if the caller takes no suspects now.
-- A caller with room in one worker gets either those or what ranks before them.
create or replace function txqueue.next_job(
    its_node integer, its_incarnation integer, queues text[], work_types text[],
    free_weight integer, largest integer, capacity integer, chunk_jobs integer, workers integer,
    since timestamptz default null, take_suspects boolean default true, from_rank timestamptz default '-infinity',
    after_tenant text default '', from_job bigint default 0)
returns table (lane smallint, assignment bigint, jobs integer, weight bigint, chunk text, alone boolean,
               due_in double precision, seen_at timestamptz, reached text, last_tenant text, reached_job bigint)
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    octets_limit constant bigint := 4194304;
    room       bigint := free_weight;
    step       integer := greatest(1, free_weight / 16);
    head       record;
    claimed    record;
    parked     integer;
    size       integer;
    tids       tid[];
    heavy      tid;
    few        tid[];
    first      bigint;
    deaths     integer := case when take_suspects then 32767 else 1 end;
    steps      integer := 0;
    total      integer := 0;
    is_busy    boolean;
    is_last    boolean := false;
    is_all     boolean := true;
    passed     smallint[];
    -- What is held back, where anything is: see open_queues(). Parallel to queues.
    is_held    boolean := false;
    is_empty   boolean := false;
    served     text[] := queues;
    given      integer[];
    allowed    integer[];
    kept       integer[];
    counted    boolean[];
    opens_in   double precision;
    is_counted smallint;
    place      integer;
    -- How many jobs may be taken, and what weight there is room for.
    most       bigint;
    open_room  bigint;
    -- Whose turn it is: tenants, then jobs without a tenant, then what may use the reserve.
    tenants    text[] := '{}';
    parts      integer[];
    exhausted  text[] := '{}';
    turn       integer := 0;
    part       bigint;
    its_tenant text;
    only_high  boolean := false;
    taken      integer;
    its_jobs   integer;
begin
    -- First of all: a session that changes a limit must see what was taken before, and waits for it with nothing locked.
    lock table claiming in row share mode;
    alone := false;
    seen_at := clock_timestamp();
    if coalesce(pg_sequence_last_value('txqueue.has_late_ends'), 0) = 1 then
        perform propagate_late_ends();
    end if;
    due_in := next_due(since);
    if due_in <= 0 then
        perform promote(since, greatest(free_weight, 1000));
        due_in := next_due(since);
        if due_in <= 0 then
            -- The caller goes back a minute from here: it must find the oldest that is left.
            seen_at := least(seen_at, clock_timestamp() + make_interval(secs => due_in + 59));
        end if;
    end if;
    select exists (select from control) into is_held
      from node_info as me where me.incarnation = its_incarnation and me.state = 'alive';
    if not found then
        room := 0;
    end if;
    is_held := room > 0 and is_held;
    if is_held then
        select held.open, held.allowed, held.allowed, held.kept, held.counted, held.opens_in, free_weight >= me.capacity
          into queues, given, allowed, kept, counted, opens_in, is_empty
          from node_info as me, lateral open_queues(served, me.capacity) as held
         where me.incarnation = its_incarnation;
        due_in := least(due_in, opens_in);
        served := queues;
    end if;
    if room > 0 and coalesce(pg_sequence_last_value('txqueue.has_tenants'), 0) = 1 then
        select turns.tenants, turns.parts, turns.last, least(due_in, turns.opens_in)
          into tenants, parts, last_tenant, due_in
          from tenant_turns(queues, room::integer, after_tenant) as turns;
    end if;
    while room > 0 and turn <= cardinality(tenants) + is_held::integer loop
        turn := turn + 1;
        its_tenant := tenants[turn];
        only_high := turn > cardinality(tenants) + 1;
        part := coalesce(parts[turn], room);
        its_jobs := 0;
        passed := '{}';
        continue when its_tenant = any (exhausted);
        if only_high then
            queues := array(select each.its_name from unnest(served, kept) as each (its_name, its_kept) where each.its_kept > 0);
            exit when queues = '{}';
        end if;
        while room > 0 and part > 0 and steps < 64 + 4 * cardinality(tenants) and not is_last loop
            steps := steps + 1;
            if its_tenant is null and not only_high then
                select each.lane, first.queue, first.rank, first.job_id, lead(first.rank) over following as until_rank,
                       lead(first.job_id) over following as until_job
                  into head
                  from unnest(queues) as wanted (queue), unnest('{0,1,2,3,4,5,6,7}'::smallint[]) as each (lane),
                       lateral (select ready.queue, ready.rank, ready.job_id from job_ready as ready
                                 where ready.lane = each.lane and ready.queue = wanted.queue and ready.tenant is null
                                   and ready.work_type = any (work_types) and (ready.rank, ready.job_id) >= (from_rank, from_job)
                                 order by ready.rank, ready.job_id limit 1) as first
                 where each.lane <> all (passed)
                window following as (order by first.rank, first.job_id)
                 order by first.rank, first.job_id limit 1;
                exit when not found;
                reached := head.rank;
                reached_job := head.job_id;
            else
                select * into head from special_head(queues, work_types, passed, its_tenant);
                exit when head.lane is null;
            end if;
            most := least(room, part);
            open_room := room;
            is_counted := null;
            if is_held then
                place := array_position(served, head.queue);
                open_room := room - case when only_high then 0 else kept[place] end;
                most := least(most, allowed[place], open_room);
                if most <= 0 then
                    queues := array_remove(queues, head.queue);
                    is_all := false;
                    continue;
                end if;
                is_counted := case when counted[place] or its_tenant is not null then 1 end;
            end if;
            case head.lane
                when 0 then select * into claimed from lock_ready_0(
                    head.queue, work_types, head.rank, head.job_id, head.until_rank, head.until_job, most::integer, deaths, its_tenant, only_high);
            end case;
            -- Nothing else was ready: if it is all taken, there is no need to look again.
            is_last := head.until_rank is null and claimed.jobs < most and its_tenant is null and not is_held;
            if claimed.jobs < least(step, most) and not is_last then
                if head.until_rank is not null then
                    case head.lane
                        when 0 then select * into claimed from lock_ready_0(
                            head.queue, work_types, head.rank, head.job_id, null, null, least(step, most)::integer, deaths, its_tenant, only_high);
                    end case;
                end if;
                if claimed.jobs < least(step, most) then
                    passed := passed || head.lane;
                end if;
            end if;
            tids := claimed.tids;
            if claimed.grouped > 0 then
                case head.lane
                    when 0 then select * into tids, parked from admit_groups_0(tids);
                end case;
                passed := case when parked > 0 then array_remove(passed, head.lane) else passed || head.lane end;
                is_last := is_last and cardinality(tids) is not distinct from claimed.jobs;
            end if;
            if tids is not null and (claimed.weight > least(open_room, part) or claimed.heaviest > largest or claimed.octets > octets_limit) then
                heavy := tids[1];
                tids := fit_capacity(head.lane, tids, open_room::integer, part::integer, largest, capacity, octets_limit);
                if tids is null and is_empty and total = 0 then
                    -- Heavier than what the reserve leaves of a node: one that runs nothing must do.
                    tids := fit_capacity(head.lane, array[heavy], room::integer, part::integer, largest, capacity, octets_limit);
                end if;
                is_all := false;
                exit when tids is null;
            end if;
            taken := 0;
            if claimed.suspects is not null then
                deaths := 1;
                select array_agg(tid order by each.place), min(each.place) into few, first from unnest(tids) with ordinality as each (tid, place)
                 where tid = any (claimed.suspects);
                tids := case
                    -- One worker is not given both: what ranks before the suspects goes first.
                    when few is not null and workers < 2 then case when first > 1 then tids[1 : first - 1] end
                    else array(select tid from unnest(tids) with ordinality as each (tid, place)
                                where tid <> all (claimed.suspects) order by each.place) end;
                if few is not null and workers < 2 then
                    is_all := false;
                    room := case when tids is null then 0 else room end;
                end if;
                if few is not null and (workers > 1 or first = 1) then
                    lane := head.lane;
                    alone := true;
                    few := case when few[1] = any (claimed.gravest) then few[1 : 1]
                                else array(select tid from unnest(few[1 : 10]) with ordinality as each (tid, place)
                                            where (tid = any (claimed.gravest)) is not true order by each.place) end;
                    case head.lane
                        when 0 then select * into assignment, jobs, weight, chunk
                            from assign_0(few, its_node, its_incarnation, is_counted);
                    end case;
                    room := room - weight;
                    part := part - weight;
                    taken := jobs;
                    total := total + jobs;
                    return next;
                    alone := false;
                end if;
            end if;
            size := least(chunk_jobs, greatest(1, ceil(cardinality(tids)::numeric / workers)));
            while cardinality(tids) > 0 loop
                lane := head.lane;
                case head.lane
                    when 0 then select * into assignment, jobs, weight, chunk
                        from assign_0(tids[1 : size], its_node, its_incarnation, is_counted);
                end case;
                tids := tids[jobs + 1 :];
                room := room - weight;
                part := part - weight;
                taken := taken + jobs;
                total := total + jobs;
                return next;
            end loop;
            if claimed.jobs > 0 and taken = claimed.jobs and its_tenant is null and not only_high then
                -- Nothing is left before the last of them, nor before where another lane goes on.
                from_rank := claimed.last_rank;
                from_job := claimed.last_job;
                if (head.until_rank, head.until_job) < (from_rank, from_job) then
                    from_rank := head.until_rank;
                    from_job := head.until_job;
                end if;
                reached := from_rank;
                reached_job := from_job;
            end if;
            if is_held then
                allowed[place] := allowed[place] - taken;
                its_jobs := its_jobs + taken;
            end if;
        end loop;
        if its_tenant is not null then
            if part > 0 and room > 0 then
                exhausted := exhausted || its_tenant;
            end if;
            if is_held and its_jobs > 0 then
                perform charge_control('tenant', its_tenant, its_jobs);
            end if;
        end if;
    end loop;
    if is_held then
        for place in 1 .. cardinality(served) loop
            if allowed[place] < given[place] then
                perform charge_control('queue', served[place], given[place] - allowed[place]);
            end if;
        end loop;
    end if;
    if cardinality(tenants) > 0 then
        is_all := is_all and not exists (select from unnest(tenants) as tenant where tenant <> all (exhausted));
    end if;
    if not is_all then
        reached := coalesce(reached, '-infinity');
    elsif is_last then
        reached := null;
    end if;
    if steps >= 64 + 4 * cardinality(tenants) then
        due_in := 0;
    else
        -- One job that was all there was is no stream of them: the next enqueue may as well wake this master.
        is_busy := total > 1 or (total = 1 and reached is not null);
        if free_weight > 0 and is_busy = has_sleeping_master() then
            perform setval('asleep', case when is_busy then 0 else 1 end);
        end if;
    end if;
    lane := null; assignment := null; jobs := 0; weight := 0; chunk := null;
    return next;
end $$;
