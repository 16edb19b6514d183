-- Limits, pauses and tenants: what programs call comes first, then its steps and what they use.

-- The tenants that have jobs which are not history: how many, since when the oldest could run, and their
-- limits. Empty until a first job of a tenant was enqueued.
create or replace view txqueue.live_tenants as
select counted.tenant, counted.waiting, counted.ready, counted.assigned, counted.failed, counted.oldest_ready,
       coalesce(control.share, 1) as share, control.concurrency, coalesce(control.is_paused, false) as is_paused
  from (select tenant,
               count(*) filter (where state = 'waiting') as waiting, count(*) filter (where state = 'ready') as ready,
               count(*) filter (where state = 'assigned') as assigned, count(*) filter (where state = 'failed') as failed,
               min(not_before) filter (where state = 'ready') as oldest_ready
          from txqueue.job
         where state in ('waiting', 'ready', 'assigned', 'failed') and tenant is not null
           and (select last_value = 1 from txqueue.has_tenants)
         group by tenant) as counted
  left join txqueue.control on control.kind = 'tenant' and control.key = counted.tenant;
comment on view txqueue.live_tenants is 'What each tenant has that is not history yet.';

-- Lets the jobs of a paused or held queue, group or tenant start again. Returns whether that changed anything.
create or replace function txqueue.resume(its_kind text, its_key text, who text) returns boolean
language plpgsql volatile security definer
as $$
declare
    this    control := lock_control(its_kind, its_key);
    former  constant jsonb := to_jsonb(this);
    changes boolean := this.is_paused or coalesce(this.held_until > clock_timestamp(), false);
begin
    this.is_paused := false;
    this.held_until := null;
    this.held_by := null;
    perform save_control(this);
    perform note_action(who, 'resume', its_kind || ' ' || its_key, '{}', case when changes then former end);
    return changes;
end $$;

-- Returns the control of a queue, a group or a tenant, created if missing. No claim commits between this and
-- the end of the transaction: claims share the lock.
create or replace function txqueue.lock_control(its_kind text, its_key text) returns control
language plpgsql volatile
as $$
declare
    this control;
begin
    if its_kind is null or its_kind not in ('queue', 'group', 'tenant') then
        perform refuse(format('%s is neither a queue nor a group nor a tenant', coalesce(its_kind, 'nothing')),
                       'name one of the three kinds');
    end if;
    if coalesce(length(its_key), 0) not between 1 and 1000 then
        perform refuse(format('the name of a %s must have 1 to 1000 characters', its_kind), 'name the one that is meant');
    end if;
    -- A group's key first, as completions take it before they read its limits. Claims wait for no lock.
    if its_kind = 'group' then
        perform lock_keys(array[key_of(its_key)]);
    end if;
    lock table claiming in exclusive mode;
    -- Before the row, so that each enqueue that can see the row looks for it.
    perform setval('has_limits', 1);
    insert into control (kind, key) values (its_kind, its_key) on conflict do nothing;
    select * into strict this from control where kind = its_kind and key = its_key;
    return this;
end $$;

-- Whether a queue, a group or a tenant ever had a limit or a pause, so that there may be one now. Read without a
-- scan, which would cost as much as a statement.
create or replace function txqueue.has_limits() returns boolean
language sql volatile  -- inlined
as $$ select coalesce(pg_sequence_last_value('txqueue.has_limits'), 0) = 1 $$;

-- Whether a control neither pauses, holds nor limits anything.
create or replace function txqueue.is_empty(this control) returns boolean
language sql stable
as $$
    select not this.is_paused and this.concurrency is null and this.rate is null and this.burst = 1 and this.share = 1
       and this.reserve = 0 and this.backlog is null and (this.held_until > clock_timestamp()) is not true
$$;

-- Stores a control, or removes it if it is empty, and makes the jobs ready that it delayed.
create or replace function txqueue.save_control(this control) returns void
language plpgsql volatile
as $$
begin
    if is_empty(this) then
        delete from control where kind = this.kind and key = this.key;
    else
        update control
           set is_paused = this.is_paused, concurrency = this.concurrency, rate = this.rate, burst = this.burst,
               share = this.share, reserve = this.reserve, backlog = this.backlog,
               is_full = this.is_full and this.backlog is not null, held_until = this.held_until, held_by = this.held_by
         where kind = this.kind and key = this.key;
    end if;
    if this.kind = 'group' then
        -- The moment for which one of them waits was that of the former rate.
        update job_waiting set waiting_for = 'group' where waiting_for = 'rate' and "group" = this.key;
        delete from group_front where "group" = this.key;
        perform free_groups(array[this.key]);
    end if;
    perform refresh_backlog_flags();
    perform pg_notify('txqueue', '');
end $$;

-- The number of a queue's jobs that wait, for whatever, or are ready.
create or replace function txqueue.backlog(queue text) returns bigint
language sql stable security definer
as $$
    select count_backlog(queue, null)
$$;

-- The number of a queue's jobs that wait, for whatever, or are ready, up to a maximum; null for none.
create or replace function txqueue.count_backlog(its_queue text, most bigint) returns bigint
language sql stable
set enable_seqscan = off
as $$
    -- Each index of the ready jobs covers one of the two kinds; that of the waiting ones is made with the first limit.
    select count(*) from (
        (select from job_ready where queue = its_queue and tenant is null limit most)
        union all
        (select from job_ready where queue = its_queue and tenant is not null limit most)
        union all
        (select from job_waiting where queue = its_queue limit most)
        limit most) as counted
$$;

-- Updates whether queues with a limited backlog are full, in which case enqueue() refuses jobs: full from the
-- limit on, open again below nine tenths of it. Does nothing while another session does this.
create or replace function txqueue.refresh_backlog_flags() returns void
language plpgsql volatile security definer
set enable_seqscan = off
as $$
begin
    if not exists (select from control where backlog is not null) then
        return;
    end if;
    -- Older code sets a limit without it.
    if not has_limits() then
        perform setval('has_limits', 1);
    end if;
    if not try_duty('gauge') then
        return;
    end if;
    update control set is_full = not is_full
     where backlog is not null
       and is_full <> (count_backlog(key, backlog) >= case when is_full then backlog - backlog / 10 else backlog end);
end $$;

-- Limits a queue, a group or a tenant, effective at once: null leaves a limit unchanged, and those named in
-- cleared are lifted first. Another rate of a group forgets what its types' rates were charged. Returns the limits that
-- now apply, null if there are none.
create or replace function txqueue.set_limit(
    its_kind text, its_key text, its_concurrency integer, its_rate double precision, its_burst integer,
    its_share double precision, its_reserve double precision, who text, cleared text[] default '{}',
    its_backlog bigint default null)
returns jsonb
language plpgsql volatile security definer
set enable_seqscan = off
as $$
declare
    this   control;
    former jsonb;
begin
    perform check_limit(its_kind, its_concurrency, its_rate, its_burst, its_share, its_reserve, its_backlog, cleared);
    this := lock_control(its_kind, its_key);
    former := to_jsonb(this);
    this.concurrency := coalesce(its_concurrency, case when not 'concurrency' = any (cleared) then this.concurrency end);
    this.rate := coalesce(its_rate, case when not 'rate' = any (cleared) then this.rate end);
    this.burst := coalesce(its_burst, case when 'burst' = any (cleared) then 1 else this.burst end);
    this.share := coalesce(its_share, case when 'share' = any (cleared) then 1 else this.share end);
    this.reserve := coalesce(its_reserve, case when 'reserve' = any (cleared) then 0 else this.reserve end);
    this.backlog := coalesce(its_backlog, case when not 'backlog' = any (cleared) then this.backlog end);
    if its_burst is not null and this.rate is null then
        perform refuse('a burst without a rate limits nothing', 'give a rate with it');
    end if;
    if this.rate is null then
        execute format('drop sequence if exists bucket_%s', this.control_id);
        this.burst := 1;
    else
        execute format('create sequence if not exists bucket_%s as bigint minvalue 0 start 0', this.control_id);
    end if;
    if this.kind = 'group' and this.rate is distinct from (former ->> 'rate')::double precision then
        delete from spent_rate where "group" = its_key;
    end if;
    if its_backlog is not null then
        perform set_config('lock_timeout', '2s', true);
        create index if not exists job_waiting_queue_idx on job_waiting (queue);
    end if;
    if this.kind = 'queue' and this.concurrency is not null then
        update job_assigned set counted = 1 where queue = its_key and counted is null;
    end if;
    perform save_control(this);
    perform note_action(who, 'limit', its_kind || ' ' || its_key, jsonb_build_object(
        'concurrency', its_concurrency, 'rate', its_rate, 'burst', its_burst, 'share', its_share,
        'reserve', its_reserve, 'backlog', its_backlog, 'cleared', to_jsonb(nullif(cleared, '{}'))), nullif(former, to_jsonb(this)));
    return (select to_jsonb(left_over) - 'control_id' from control as left_over where kind = its_kind and key = its_key);
end $$;

-- Refuses limits that are out of range, or that do not apply to the kind of key.
create or replace function txqueue.check_limit(
    its_kind text, its_concurrency integer, its_rate double precision, its_burst integer,
    its_share double precision, its_reserve double precision, its_backlog bigint, cleared text[]) returns void
language plpgsql volatile
as $$
begin
    if its_concurrency < 1 then
        perform refuse(format('a concurrency of %s is below 1', its_concurrency), 'pause it, so that nothing starts');
    elsif not (its_rate >= 1e-6 and its_rate <= 1e6) then
        perform refuse(format('a rate of %s jobs a second is not from 0.000001 to 1000000', its_rate),
                       'pause it, so that nothing starts, or lift the rate');
    elsif its_burst not between 1 and 1000000 then
        perform refuse(format('a burst of %s is not within 1 to 1000000', its_burst), 'give how many jobs may start at once');
    elsif not (its_share >= 1e-6 and its_share <= 1e6) then
        perform refuse(format('a share of %s is not from 0.000001 to 1000000', its_share), '1 is the share of a tenant without one');
    elsif not (its_reserve >= 0 and its_reserve < 1) then
        perform refuse(format('a reserve of %s is not from 0 to below 1', its_reserve), 'give the part of a node''s capacity, such as 0.2');
    elsif its_share is not null and its_kind <> 'tenant' then
        perform refuse(format('a %s has no share', its_kind), 'shares are of tenants');
    elsif its_reserve is not null and its_kind <> 'queue' then
        perform refuse(format('a %s has no reserve', its_kind), 'reserves are of queues');
    elsif its_backlog < 1 then
        perform refuse(format('a backlog of %s is below 1', its_backlog), 'give how many jobs may wait or be ready');
    elsif its_backlog is not null and its_kind <> 'queue' then
        perform refuse(format('a %s has no backlog', its_kind), 'backlogs are of queues');
    elsif not cleared <@ '{concurrency,rate,burst,share,reserve,backlog}' then
        perform refuse('there is no such limit to lift', 'lift concurrency, rate, burst, share, reserve or backlog');
    end if;
end $$;

-- Pauses a queue, a group or a tenant until it is resumed; running jobs continue. Takes effect at the next
-- claim: compute_allowances() allows a paused queue or tenant no jobs, so open_claim() and tenant_turns() skip
-- it, and group_slots() gives a paused group no slot. Returns whether that changed anything.
--
-- enqueue_assigned() makes no direct dispatch to a paused queue. take_first() takes nothing while any control
-- exists, so claim_ready() leaves all jobs to next_job().
create or replace function txqueue.pause(its_kind text, its_key text, who text) returns boolean
language plpgsql volatile security definer
as $$
declare
    this    control := lock_control(its_kind, its_key);
    changes boolean := not this.is_paused;
begin
    this.is_paused := true;
    perform save_control(this);
    perform note_action(who, 'pause', its_kind || ' ' || its_key, '{}', case when changes then to_jsonb(this) end);
    return changes;
end $$;

-- Charges jobs to the token bucket of a limited queue or tenant, if it has one; the caller holds the key's
-- lock.
create or replace function txqueue.charge_control(its_kind text, its_key text, jobs integer) returns void
language plpgsql volatile
as $$
declare
    this    control;
    now_us  bigint := extract(epoch from clock_timestamp()) * 1e6;
    most_us bigint;
begin
    select * into this from control where kind = its_kind and key = its_key and rate is not null;
    if found then
        -- Both as in bucket_level(): the least rate, and that a value beyond all that can have been taken counts as paid.
        this.rate := greatest(this.rate, 1e-6);
        most_us := now_us + (this.burst + 1) * 1e6 / this.rate;
        execute format('select setval(''bucket_%1$s'', (case when last_value > $3 then $1 else greatest(last_value, $1) end + $2)::bigint)
                          from bucket_%1$s', this.control_id)
          using now_us, jobs * 1e6 / this.rate, most_us;
    end if;
end $$;

-- Whether a tenant is neither paused nor limited: only then its jobs may take a reserve, in whose turn claims do not
-- count what tenants may take. Only claims call it.
create or replace function txqueue.is_unlimited_tenant(tenant text) returns boolean
language sql stable  -- inlined
as $$
    select not exists (select from txqueue.control
                        where kind = 'tenant' and key = is_unlimited_tenant.tenant
                          and (is_paused or concurrency is not null or rate is not null or held_until > clock_timestamp()))
$$;

-- Records that jobs with a tenant exist, so that claims search for them from now on.
create or replace function txqueue.note_tenants() returns void
language sql volatile  -- inlined
as $$ select setval('txqueue.has_tenants', 1) from txqueue.has_tenants where last_value = 0 $$;

-- How many jobs a claim may take from each of some queues or tenants, in the order given: null for any number.
-- The claim holds the keys of the limited ones from now on; while another claim holds a key, that allowance is
-- 0. opens_in then has the seconds after which to retry, if only time has to pass. Only next_job() and its steps
-- call it; their settings pin the plans and the search path.
create or replace function txqueue.compute_allowances(its_kind text, names text[])
returns table (name text, jobs integer, opens_in double precision, share double precision, reserve double precision, is_counted boolean)
language plpgsql volatile  -- inlined
as $$
declare
    contended constant double precision := 0.005;
    limited   text[];
    keys      smallint[];
    running   bigint[];
begin
    select array_agg(control.key),
           array_agg(txqueue.key_of(its_kind || ' ' || control.key)) filter (
               where not control.is_paused and (control.concurrency is not null or control.rate is not null))
      into limited, keys
      from txqueue.control where control.kind = its_kind and control.key = any (names);
    if limited is null then
        return query select its.name, null::integer, null::float8, null::float8, null::float8, false
                       from unnest(names) with ordinality as its (name, place) order by its.place;
        return;
    end if;
    if keys is not null then
        keys := txqueue.try_keys(keys);
        -- Counted under the locks.
        if its_kind = 'queue' then
            running := array(select (select count(*) from txqueue.job_assigned where queue = each.name and counted is not null)
                               from unnest(names) with ordinality as each (name, place) order by each.place);
        else
            running := array(select case when each.name = any (limited) then
                                    (select count(*) from txqueue.job_assigned where tenant = each.name) end
                               from unnest(names) with ordinality as each (name, place) order by each.place);
        end if;
    end if;
    return query
    select its.name,
           case when control.is_paused or control.held_until > clock_timestamp() then 0
                when control.concurrency is null and control.rate is null then null
                when not its.is_locked then 0
                else greatest(0, least(control.concurrency - its.running, bucket.jobs)) end::integer,
           case when control.is_paused then null
                when control.held_until > clock_timestamp() then extract(epoch from control.held_until - clock_timestamp())
                when control.concurrency is null and control.rate is null then null
                when not its.is_locked then contended
                when control.concurrency <= its.running then null
                else bucket.opens_in end,
           control.share, control.reserve, control.concurrency is not null
      from (select *, txqueue.key_of(its_kind || ' ' || each.name) in (select unnest(keys)) as is_locked
              from rows from (unnest(names), unnest(running)) with ordinality as each (name, running, place)) as its
      -- Offset 0 has each looked up by its key: with few rows expected, the planner would compare each with all others.
      left join lateral (select * from txqueue.control as one where one.kind = its_kind and one.key = its.name offset 0) as control on true
      left join lateral (select * from txqueue.bucket_level(control) where control.rate is not null offset 0) as bucket on true
     order by its.place;
end $$;

-- The level of a token bucket: how many jobs may be taken now (null without a bucket), and if none, in how
-- many seconds one may. In any t seconds at most burst + rate * t jobs are taken. The sequence of the bucket
-- keeps the moment, in microseconds since 1970, by which all that was taken is paid for (the generic cell
-- rate algorithm, ITU-T I.371).
create or replace function txqueue.bucket_level(this control, out jobs integer, out opens_in double precision)
language plpgsql volatile
as $$
declare
    -- A row of an older version may have a lower rate, whose moments no bigint holds.
    rate       constant double precision := greatest(this.rate, 1e-6);
    paid_until bigint;
    ahead      double precision;
begin
    if this.rate is null then
        return;
    end if;
    paid_until := pg_sequence_last_value(format('bucket_%s', this.control_id)::regclass);
    ahead := greatest(0, paid_until / 1e6 - extract(epoch from clock_timestamp())::double precision) * rate;
    if ahead > this.burst + 1 then
        -- More than can have been taken: the clock was set back, or the rate raised.
        ahead := 0;
    end if;
    jobs := floor(this.burst - ahead);
    if jobs < 1 then
        jobs := 0;
        opens_in := (ahead - this.burst + 1) / rate;
    end if;
end $$;

-- Whether a type that declares a rate was ever published.
create or replace function txqueue.has_rates() returns boolean
language sql volatile  -- inlined
as $$ select coalesce(pg_sequence_last_value('txqueue.has_rates'), 0) = 1 $$;

-- What is left of the rate that a type declares for a group: tokens, below 0 after jobs that cost more than was left. If that is
-- less than 1, opens_in has the seconds until it is 1. place is the row that says what is spent.
create or replace function txqueue.rate_level(
    its_type text, its_group text, rate jsonb, out tokens double precision, out opens_in double precision, out place tid)
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    per_second constant double precision := greatest((rate ->> 'rate')::double precision, 1e-6);
    last       record;
    elapsed    double precision;
begin
    -- The last row first, so that it does not matter how many former ones a snapshot keeps.
    select ctid, spent, counted_at into last from spent_rate
     where "group" = its_group and work_type = its_type order by number desc limit 1;
    place := last.ctid;
    elapsed := extract(epoch from clock_timestamp() - last.counted_at);
    -- After the clock was set back, nothing counts as spent.
    tokens := (rate ->> 'burst')::double precision - case when elapsed > -1 then greatest(0, last.spent - per_second * greatest(0, elapsed)) else 0 end;
    if tokens < 1 then
        -- Not too early: moments are rounded to a microsecond.
        opens_in := least((1 - tokens) / per_second + 1e-6, 1e9);
    end if;
end $$;

-- Charges a cost to the rate that a type declares for a group, if it does; a negative one is given back. The caller holds the
-- group's lock.
create or replace function txqueue.charge_rate(its_type text, its_group text, cost double precision) returns void
language plpgsql volatile
as $$
declare
    rate  constant jsonb := (
        select policy -> 'group_rate' from work_type where work_type = its_type);
    level record;
    spent double precision;
begin
    if rate is not null then
        level := rate_level(its_type, its_group, rate);
        spent := greatest(0, (rate ->> 'burst')::double precision - level.tokens + cost);
        insert into spent_rate (work_type, "group", spent, counted_at, paid_at)
        values (its_type, its_group, spent, clock_timestamp(),
                clock_timestamp() + make_interval(secs => least(spent / greatest((rate ->> 'rate')::double precision, 1e-6), 1e9)));
        delete from spent_rate where ctid = level.place;
    end if;
end $$;

-- Does what the handlers of ended jobs have said about rates: charges what a job cost more than its weight, or gives it back, and
-- holds the key of jobs that raised Throttled, so that no job of it starts on any node before their delay is over. It is the
-- job's group, else its tenant, else its queue. said is an array of objects with job_id, work_type, weight, group, tenant, queue,
-- cost, and delay if it is to be held. The caller holds the locks of the groups.
create or replace function txqueue.settle_rates(said jsonb) returns void
language plpgsql volatile
as $$
begin
    perform charge_rate(its.work_type, its."group", its.cost - its.weight)
       from jsonb_to_recordset(said) as its (work_type text, "group" text, cost double precision, weight integer)
      where its.cost is not null and its."group" is not null
        and not exists (select from control where kind = 'group' and key = its."group" and rate is not null);
    if not jsonb_path_exists(said, '$[*].delay') then
        return;
    end if;
    -- Before the rows, as in lock_control().
    if not has_limits() then
        perform setval('has_limits', 1);
    end if;
    insert into control as known (kind, key, held_until, held_by)
    select distinct on (1, 2) case when "group" is not null then 'group' when tenant is not null then 'tenant' else 'queue' end,
           coalesce("group", tenant, queue), clock_timestamp() + make_interval(secs => delay), job_id
      from jsonb_to_recordset(said) as its (job_id bigint, "group" text, tenant text, queue text, delay double precision)
     where delay is not null
     order by 1, 2, delay desc
    on conflict (kind, key) do update set held_until = excluded.held_until, held_by = excluded.held_by
     where (known.held_until >= excluded.held_until) is not true;
end $$;

-- Deletes holds that are over, and what says only that rates are paid for.
create or replace function txqueue.forget_spent() returns void
language plpgsql volatile
set enable_seqscan = off
as $$
begin
    delete from spent_rate where paid_at < clock_timestamp() - interval '1 minute';
    if has_limits() then
        delete from control as its where held_until < clock_timestamp() and is_empty(its);
    end if;
end $$;

-- The turns of tenants in a claim: how much weight each tenant with ready jobs may take, by shares, in rounds
-- of short turns first, so that a few jobs of one tenant do not wait for many of another; jobs without a
-- tenant count as one more tenant, of share 1, and come last. The unused part of a tenant is available to the
-- next claim. Systematic sampling gives each tenant its share to within one job, and exactly its share on
-- average, however little room there is; so claims need no memory (Waldspurger and Weihl, Lottery Scheduling,
-- 1994, with less variance).
--
-- At most 32 tenants get a turn in one claim; the next claim continues after last.
create or replace function txqueue.tenant_turns(
    queues text[], room integer, after_tenant text,
    out turns txqueue.claim_turn[], out last text, out opens_in double precision)
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
    most    constant integer := 32;
    found_  text[];
    heads   timestamptz[];
    its     record;
    shares  double precision[] := '{}';
    limits  integer[] := '{}';
    chance  double precision := random();
    total   double precision;
    passed  double precision := 0;
    before  double precision;
    owed    integer[] := '{}';
    tenants text[] := '{}';
    part    integer;
    round   double precision := 32;
begin
    turns := '{}';
    select walk.tenants, walk.ranks into found_, heads from next_tenants(queues, after_tenant, most) as walk;
    if after_tenant <> '' then
        select found_ || array_agg(again.tenant order by place), heads || array_agg(again.rank order by place) into found_, heads
          from next_tenants(queues, '', most - cardinality(found_)) as walk,
               unnest(walk.tenants, walk.ranks) with ordinality as again (tenant, rank, place)
         where again.tenant collate "C" <= after_tenant;
    end if;
    if cardinality(found_) = most then
        last := found_[most];
    end if;
    -- The tenant whose jobs came last goes first in a round, as it is the one with few jobs.
    found_ := array(select each.tenant from unnest(found_, heads) as each (tenant, rank) order by each.rank desc);
    for its in select * from compute_allowances('tenant', found_) loop
        opens_in := least(opens_in, its.opens_in);
        continue when its.jobs = 0;
        limits := limits || its.jobs::integer;
        tenants := tenants || its.name;
        -- A row of an older version may have a smaller share, whose part of the room no double precision holds.
        shares := shares || greatest(coalesce(its.share, 1), 1e-6);
    end loop;
    total := (select coalesce(sum(share), 0) from unnest(shares) as share)
        + (exists (select from job_ready where queue = any (queues) and tenant is null))::integer;
    for each in 1 .. cardinality(tenants) loop
        before := floor(passed + chance);
        passed := passed + room * shares[each] / total;
        owed := owed || least(limits[each], (floor(passed + chance) - before)::integer);
    end loop;
    loop
        for each in 1 .. cardinality(tenants) loop
            part := least(owed[each], ceil(round * shares[each])::integer);
            owed[each] := owed[each] - part;
            turns := turns || row(tenants[each], part, false)::claim_turn;
        end loop;
        exit when not exists (select from unnest(owed) as rest where rest > 0);
        round := round * 1.25;
    end loop;
end $$;

-- The tenants after one, in order, that have ready jobs in some queues, and the rank of the first job of
-- each: a walk from each to the next by the index, which reads no other job of theirs.
create or replace function txqueue.next_tenants(
    queues text[], after_tenant text, at_most integer, out tenants text[], out ranks timestamptz[])
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
    lanes constant smallint[] := case when cardinality(queues) > 8 then lanes_in_use() else '{0,1,2,3,4,5,6,7}' end;
    its   record;
begin
    if cardinality(queues) > 64 then
        -- The others have none of the first tenants.
        with first_of as materialized (
            select wanted.queue, first.tenant
              from unnest(queues) as wanted (queue), unnest(lanes) as each (lane),
                   lateral (select ready.tenant from job_ready as ready
                             where ready.lane = each.lane and ready.queue = wanted.queue
                               and ready.tenant is not null and ready.tenant > after_tenant
                             order by ready.tenant limit 1) as first
        )
        select array_agg(distinct queue) into queues from first_of
         where tenant <= (select max(tenant) from (select distinct tenant from first_of order by tenant limit at_most) as few);
    end if;
    tenants := '{}';
    ranks := '{}';
    while cardinality(tenants) < at_most loop
        select first.tenant, first.rank into its
          from unnest(queues) as wanted (queue), unnest(lanes) as each (lane),
               lateral (select ready.tenant, ready.rank from job_ready as ready
                         where ready.lane = each.lane and ready.queue = wanted.queue
                           and ready.tenant is not null and ready.tenant > after_tenant
                         order by ready.tenant, ready.rank limit 1) as first
         order by first.tenant, first.rank limit 1;
        exit when not found;
        after_tenant := its.tenant;
        tenants := tenants || its.tenant;
        ranks := ranks || its.rank;
    end loop;
end $$;
