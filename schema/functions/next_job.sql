-- What masters call: promotes what is due, then takes ready jobs for this node in rank order, up
-- to free_weight, as chunks of at most chunk_jobs, at least one for each worker where there are that
-- many. Returns one row a chunk; the last row has no
-- assignment and says in due_in how many seconds to wait for the next job that waits for time, in
-- seen_at the moment up to which due jobs were promoted, and in reached the rank before which nothing
-- was left. A caller that claims again at once passes that as from_rank, so that the dead rows before
-- it are not read again; what has come in before it since is found by the next claim without it.
-- It is null when all that was ready is taken, and text because not every client can read every moment.
--
-- Lanes are taken one after the other, the one with the smallest rank first and up to the next
-- lane's smallest, or a sixteenth of the batch beyond it, so that lanes that interleave finely
-- cost no more than sixteen steps.
--
-- A job that was there when two processes died is to run in a process that runs nothing else, so
-- that the one that kills is found and the others lose nothing: such jobs are taken one a claim, as
-- a chunk that is marked alone, and none if the caller takes no suspects now.
create or replace function @schema@.next_job(
    its_node integer, its_incarnation integer, queues text[], work_types text[],
    free_weight integer, largest integer, capacity integer, chunk_jobs integer, workers integer,
    since timestamptz default null, take_suspects boolean default true, from_rank timestamptz default '-infinity')
returns table (lane smallint, assignment bigint, jobs integer, weight bigint, chunk text, alone boolean,
               due_in double precision, seen_at timestamptz, reached text)
language plpgsql volatile security definer
set search_path = @schema@, pg_temp
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
    its_lock   text;
    its_move   text;
    claimed    record;
    parked     integer;
    size       integer;
    tids       tid[];
    suspect    tid;
    deaths     integer := case when take_suspects then 32767 else 1 end;
    steps      integer := 0;
    found_any  boolean := false;
    is_last    boolean := false;
    is_all     boolean := true;
    passed     smallint[] := '{}';
begin
    alone := false;
    seen_at := clock_timestamp();
    due_in := next_due(since);
    if due_in <= 0 then
        perform promote(since, greatest(free_weight, 1000));
        due_in := next_due(since);
    end if;
    if not exists (select from node_info as me where me.incarnation = its_incarnation and me.state = 'alive') then
        room := 0;
    end if;
    while room > 0 and steps < 64 and not is_last loop
        steps := steps + 1;
        select each.lane, first.queue, first.rank, lead(first.rank) over following as until_rank,
               lead(first.job_id) over following as until_job
          into head
          from unnest(queues) as wanted (queue), unnest('{0,1,2,3,4,5,6,7}'::smallint[]) as each (lane),
               lateral (select ready.queue, ready.rank, ready.job_id from job_ready as ready
                         where ready.lane = each.lane and ready.queue = wanted.queue
                           and ready.work_type = any (work_types) and ready.rank >= from_rank
                         order by ready.rank, ready.job_id limit 1) as first
         where each.lane <> all (passed)
        window following as (order by first.rank, first.job_id)
         order by first.rank, first.job_id limit 1;
        exit when not found;
        reached := head.rank;
        its_lock := format('select * from lock_ready_%s($1, $2, $3, $4, $5, $6, $7)', head.lane);
        its_move := format('select * from assign_%s($1, $2, $3, null)', head.lane);
        execute its_lock into claimed using head.queue, work_types, head.rank, head.until_rank, head.until_job, room::integer, deaths;
        -- Nothing else was ready, and it is all taken: there is no need to look again.
        is_last := head.until_rank is null and claimed.jobs < room and claimed.grouped = 0;
        if claimed.jobs < step and not is_last then
            execute its_lock into claimed using head.queue, work_types, head.rank, null::timestamptz, null::bigint, step, deaths;
            if claimed.jobs < step then
                passed := passed || head.lane;
            end if;
        end if;
        tids := claimed.tids;
        if claimed.grouped > 0 then
            select admitted.taken, admitted.parked into tids, parked
              from admit_groups(head.lane, tids) as admitted;
            passed := case when parked > 0 then array_remove(passed, head.lane) else passed || head.lane end;
        end if;
        if tids is not null and (claimed.weight > room or claimed.heaviest > largest or claimed.octets > octets_limit) then
            tids := fitting(head.lane, tids, room::integer, largest, capacity, octets_limit);
            is_all := false;
            exit when tids is null;
        end if;
        if claimed.suspects is not null then
            deaths := 1;
            select tid into suspect from unnest(tids) with ordinality as taken (tid, place)
             where tid = any (claimed.suspects) order by place limit 1;
            tids := array(select tid from unnest(tids) with ordinality as taken (tid, place)
                           where tid <> all (claimed.suspects) order by place);
            if suspect is not null then
                lane := head.lane;
                alone := true;
                execute its_move into assignment, jobs, weight, chunk using array[suspect], its_node, its_incarnation;
                room := room - weight;
                found_any := true;
                return next;
                alone := false;
            end if;
        end if;
        size := least(chunk_jobs, greatest(1, ceil(cardinality(tids)::numeric / workers)));
        while cardinality(tids) > 0 loop
            lane := head.lane;
            execute its_move into assignment, jobs, weight, chunk using tids[1 : size], its_node, its_incarnation;
            tids := tids[jobs + 1 :];
            room := room - weight;
            found_any := true;
            return next;
        end loop;
    end loop;
    if is_last and is_all then
        reached := null;
    end if;
    if steps = 64 then
        due_in := 0;
    elsif free_weight > 0 and found_any = (select last_value = 1 from asleep) then
        perform setval('asleep', case when found_any then 0 else 1 end);
    end if;
    lane := null; assignment := null; jobs := 0; weight := 0; chunk := null;
    return next;
end $$;
