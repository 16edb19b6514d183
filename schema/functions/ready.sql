-- How jobs become ready: what programs call comes first, then its steps and what they use.

-- Claims the first due job in rank order among given ones and those above the number since, of the caller's own
-- transaction if is_own, for a caller that runs them one at a time: txqueue.testing. Those that wait for time are due at the given moment, which may be in the
-- future; the clock's time, if that is later. Jobs of a group pass admit_groups(), as in next_job(), with rates by the
-- clock alone. Pauses are obeyed, other limits of queues and tenants are not.
--
-- Returns an object: ahead, the seconds between the clock and the moment; next_at, when the next of these jobs
-- is due, if none is now; and of a claimed job assignment, lane, chunk, and children: the jobs that wait for its end.
create or replace function txqueue.claim_given(
    its_node integer, its_incarnation integer, work_types text[], given bigint[], since bigint, is_own boolean,
    moment timestamptz)
returns jsonb
language plpgsql volatile security definer
set enable_seqscan = off
as $$
declare
    due      constant timestamptz := greatest(moment, clock_timestamp());
    ahead    constant double precision := extract(epoch from due - clock_timestamp());
    this     record;
    admitted tid[];
    claimed  claimed_chunk;
begin
    given := given || array(select job_id from job where state in ('waiting', 'ready') and job_id > since
                               and (enqueued_at = now() or not is_own));
    perform make_ready(array(select ctid from job_waiting where waiting_for = 'time' and not_before <= due
                                and job_id = any (given) for update skip locked));
    perform end_rate_waits(array(select ctid from job_waiting where waiting_for = 'rate' and not_before <= clock_timestamp()
                                    and job_id = any (given) for update skip locked));
    if exists (select from late_end) then
        -- Of children called and of signals sent in this transaction, for example.
        perform propagate_late_ends();
    end if;
    for this in
        select ready.ctid as tid, ready.lane, ready.job_id, ready."group" from job_ready as ready
         where ready.job_id = any (given) and ready.work_type = any (work_types)
           and (ready.options -> 'unread' ?| work_types) is not true
           and not exists (select from control where is_paused and (kind, key) in (('queue', ready.queue), ('tenant', ready.tenant)))
         order by ready.rank, ready.job_id
    loop
        admitted := array(select ctid from job_ready where lane = this.lane and ctid = this.tid for update skip locked);
        continue when admitted = '{}';
        if this."group" is not null then
            case this.lane
                when 0 then admitted := (admit_groups_0(admitted, 1)).taken;
            end case;
            continue when admitted is null;
        end if;
        case this.lane
            when 0 then claimed := assign_0(this.lane, admitted, its_node, its_incarnation, null::smallint, false);
        end case;
        return jsonb_build_object(
            'ahead', ahead, 'assignment', claimed.assignment, 'lane', this.lane, 'chunk', claimed.chunk,
            'children', (select jsonb_agg(child) from job_parent where parent = this.job_id));
    end loop;
    return jsonb_build_object('ahead', ahead, 'next_at', (
        select min(not_before) from job_waiting
         where waiting_for = 'time' and isfinite(not_before) and work_type = any (work_types)
           and job_id = any (given)));
end $$;

-- Moves waiting jobs, by ctid, to the ready partition; returns how many.
create or replace function txqueue.make_ready(places tid[]) returns integer
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    to_lane smallint := current_lane();
    moved   integer;
begin
    with gone as (
        delete from job_waiting where ctid = any (places) returning *
    )
    insert into job_ready (job_id, rank, not_before, not_after, enqueued_at, weight, priority, attempt, deaths,
                           lane, state, work_type, queue, "group", tenant, options, payload, error, followed, progress)
    select job_id, rank, not_before, not_after, enqueued_at, weight, priority, attempt, deaths,
           to_lane, 'ready', work_type, queue, "group", tenant, options, payload, error, followed, progress
      from gone;
    get diagnostics moved = row_count;
    return moved;
end $$;

-- The lane for new ready jobs, until rotation moves on to the next. Read without a scan, which would cost as
-- much as a statement; a sequence that was never set returns null.
create or replace function txqueue.current_lane() returns smallint
language sql volatile  -- inlined
as $$ select coalesce(pg_sequence_last_value('txqueue.lane'), 0)::smallint $$;

-- The claim of a master that a notification has woken, for the usual shape of the queue: a few small jobs in
-- the current lane, and neither groups, tenants, limits nor suspects. It costs half as much as next_job(),
-- which a master must also call, every tenth of a second or so: other lanes, due jobs and late ends are only
-- seen there.
--
-- Returns one chunk of jobs in rank order; jobs is 0 if there are none. is_ordinary: if not, next_job() must
-- be called at once; nothing was taken.
create or replace function txqueue.claim_ready(
    its_node integer, its_incarnation integer, queues text[], work_types text[], at_most integer,
    out lane smallint, out assignment bigint, out jobs integer, out weight bigint, out chunk text, out is_ordinary boolean)
language plpgsql volatile security definer
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set plan_cache_mode = force_generic_plan
as $$
declare
    given   record;
begin
    -- As in next_job().
    lock table claiming in row share mode;
    is_ordinary := coalesce(pg_sequence_last_value('txqueue.has_late_ends'), 0) = 0
               and coalesce(pg_sequence_last_value('txqueue.has_tenants'), 0) = 0;
    jobs := 0;
    lane := current_lane();
    if is_ordinary then
        case lane
            when 0 then given := take_first_0(its_node, its_incarnation, queues, work_types, at_most);
        end case;
        assignment := given.assignment;
        jobs := given.jobs;
        weight := given.jobs;
        chunk := given.chunk;
        is_ordinary := given.is_ordinary;
    end if;
end $$;

-- The rank, a moment by which jobs are ordered, smaller first: when a job is due, minus its priority; or, if
-- smaller, the rank of a job of the highest priority that is due at not_after.
create or replace function txqueue.compute_rank(
    not_before timestamptz, not_after timestamptz, priority integer, aging interval) returns timestamptz
language sql stable parallel safe  -- inlined
as $$ select least(not_before - priority * aging, not_after - 9 * aging) $$;

-- Returns a job in its state after its wait: ready, unless it is not due yet or no node has published its
-- type.
create or replace function txqueue.make_eligible(this job) returns job
language plpgsql volatile
as $$
begin
    this.waiting_for := case
        when not exists (select from work_type as known where known.work_type = this.work_type) then 'type'
        when this.not_before > clock_timestamp() then 'time' end;
    this.state := case when this.waiting_for is null then 'ready' else 'waiting' end;
    this.lane := current_lane();
    return this;
end $$;

-- Makes up to 10,000 jobs ready that waited for a type which is now published. Returns how many; if it is that
-- many, there may be more, for the next heartbeat.
create or replace function txqueue.make_published_ready() returns integer
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    waiting tid[];
    moved   integer;
begin
    waiting := array(
        select ctid from job_waiting
         where waiting_for = 'type' and work_type = any (array(
            select known.work_type from work_type as known
             where exists (select from job_waiting as job
                            where job.waiting_for = 'type' and job.work_type = known.work_type)))
         limit 10000 for update skip locked);
    if waiting = '{}' then
        return 0;
    end if;
    update job_waiting set waiting_for = 'time' where ctid = any (waiting) and not_before > clock_timestamp();
    get diagnostics moved = row_count;
    moved := moved + make_ready(array(select ctid from job_waiting where ctid = any (waiting) and waiting_for = 'type'));
    perform wake_masters(moved);
    return moved;
end $$;

-- Makes due jobs ready, and of a group whose rate allows one more, its first job: at most at_most of them in the order of their due moments, and if some are left,
-- at_most more of those above the default priority, the highest first, so that urgent jobs do not wait behind
-- an overdue backlog. A caller that has promoted up to a moment passes it as since, so that the dead rows
-- before it are not read again; null reads all.
create or replace function txqueue.promote(since timestamptz, at_most integer) returns integer
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    due      tid[];
    paid     tid[];
    promoted integer;
    urgent   integer := 0;
begin
    select array_agg(tid) filter (where waiting_for = 'time'), array_agg(tid) filter (where waiting_for = 'rate') into due, paid
      from (select ctid as tid, waiting_for from job_waiting
             where waiting_for in ('time', 'rate') and not_before <= clock_timestamp() and not_before >= coalesce(since, '-infinity')
             order by not_before limit at_most for update skip locked) as first;
    promoted := coalesce(make_ready(due), 0) + coalesce(end_rate_waits(paid), 0);
    if promoted < at_most then
        return promoted;
    end if;
    for its_priority in reverse 9 .. 5 loop
        select array_agg(tid) filter (where waiting_for = 'time'), array_agg(tid) filter (where waiting_for = 'rate') into due, paid
          from (select ctid as tid, waiting_for from job_waiting
                 where waiting_for in ('time', 'rate') and priority > 4 and priority = its_priority
                   and not_before <= clock_timestamp()
                 order by not_before limit at_most - urgent for update skip locked) as first;
        urgent := urgent + coalesce(make_ready(due), 0) + coalesce(end_rate_waits(paid), 0);
        exit when urgent >= at_most;
    end loop;
    return promoted + urgent;
end $$;

-- Seconds until the next waiting job is due: at most 0 if one is due now, null if none will ever be due. Only
-- next_job() and its steps call it; their settings pin the plan and the search path.
create or replace function txqueue.next_due(since timestamptz) returns double precision
language plpgsql volatile  -- inlined
as $$
begin
    return (
        select case when isfinite(not_before) then extract(epoch from not_before - clock_timestamp()) end
          from txqueue.job_waiting
         where waiting_for in ('time', 'rate') and not_before >= coalesce(since, '-infinity')
         order by not_before limit 1);
end $$;
