-- The claim of a master: promotes due jobs, then takes ready jobs for this node in rank order, up to
-- free_weight, as chunks of at most chunk_jobs, at least one for each worker if there are that many. Returns
-- one row per chunk; the last row has no assignment and says in due_in how many seconds to wait for the next
-- job that waits for time, in seen_at the moment up to which due jobs were promoted, and in reached and
-- reached_job the rank and number up to which all ready jobs are claimed. A caller that claims again at once
-- passes them as from_rank and from_job, so that the dead rows before them are not read again; a job enqueued
-- there since is found by the next claim that does not pass them. The rank is null when all ready jobs are
-- claimed, and text because not every client can read every moment. Pass last_tenant as after_tenant in the
-- next claim; it is set if not all tenants had a turn.
--
-- Lanes are read one after the other, the one with the smallest rank first, up to the next lane's smallest
-- rank or a sixteenth of the batch beyond it, so that lanes that interleave finely cost no more than sixteen
-- steps.
--
-- Tenants take their turns first, then jobs without a tenant, and last, if a queue keeps a reserve, jobs of
-- priority 7 and higher, which may use it.
--
-- A job that was running when two processes died is a suspect, which runs in a process without other jobs:
-- ten together, and from the third death on alone, so that the job that kills is found and no other is
-- blamed. A claim takes suspects once, as a chunk that is marked as alone, unless the caller accepts no
-- suspects now. A caller with room in one worker gets either suspects or the jobs that rank before them.
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
    -- The allowances of limited queues, parallel to queues: see open_queues().
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
    -- How many jobs may be taken, and for what weight there is room.
    most       bigint;
    open_room  bigint;
    -- The turns: tenants, then jobs without a tenant, then jobs that may use the reserve.
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
    -- First, because a session that changes a limit must see all earlier claims, and waits for them without
    -- other locks.
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
            -- The next claim searches from one minute before this, so it must include the oldest remaining
            -- job.
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
            -- Nothing else was ready: if all is taken, there is no need to search again.
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
                    -- A job heavier than the rest of a node beside the reserve: an idle node takes it.
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
                    -- One worker does not get both: jobs that rank before the suspects go first.
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
                -- No ready job is left before the last of them, nor before the head of another lane.
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
        -- If the only ready job was taken, there is no stream of jobs: the next enqueue may wake this master.
        is_busy := total > 1 or (total = 1 and reached is not null);
        if free_weight > 0 and is_busy = has_sleeping_master() then
            perform setval('asleep', case when is_busy then 0 else 1 end);
        end if;
    end if;
    lane := null; assignment := null; jobs := 0; weight := 0; chunk := null;
    return next;
end $$;
