-- Enqueueing: what programs call comes first, then its steps and what they use.

-- Enqueues one job with nothing but a payload, as most are, in the caller's transaction; returns its number. PostgreSQL
-- would read the defaults of the other function at each call. That one takes the type as varchar: of two functions for
-- two literals PostgreSQL prefers that which takes text.
--
-- One statement reads and writes; of open credit, one reads the policy, and enqueue_credited() does the rest. What they do
-- not take is enqueued, or refused, by the other function, and so is every job while something is limited.
create or replace function txqueue.enqueue(work_type text, payload jsonb) returns bigint
language plpgsql volatile security definer
as $$
declare
    job_id    bigint;
    is_awake  boolean;
    its_queue text;
    priority  smallint;
    aging     interval;
begin
    if has_open_credit() or has_limits() then
        if not has_limits() then
            select nextval('job_id'), known.queue, known.priority, settings.aging into job_id, its_queue, priority, aging
              from setting as settings, work_type as known
             where known.work_type = enqueue.work_type and known.weight = 1
               and (known.policy ?| array['encrypted', 'keys']) is not true
               and is_short_object(enqueue.payload, settings.payload_limit);
            if found and enqueue_credited(job_id, work_type, payload, its_queue, priority, current_timestamp, aging, null) then
                return job_id;
            end if;
        end if;
        return enqueue(work_type, payload, null);
    end if;
    -- All columns, in their order: to fill others in would be a step of the plan, and so would a condition on the payload
    -- alone. The function now would be looked up for each use.
    insert into job_ready (
        job_id, rank, not_before, not_after, enqueued_at, assigned_at, started_at, finished_at, assignment, node_id,
        incarnation, weight, priority, attempt, deaths, lane, state, waiting_for, work_type, queue, "group", options,
        payload, error, result, tenant, handed, counted, followed, fingerprint, failed_at, progress, steps)
    select nextval('job_id'), compute_rank(current_timestamp, null, known.priority, settings.aging), current_timestamp,
           null::timestamptz, current_timestamp, null::timestamptz, null::timestamptz, null::timestamptz, null::bigint,
           null::integer, null::integer, known.weight, known.priority, 0::smallint, 0::smallint, current_lane(),
           'ready'::job_state, null::text collate "C", known.work_type, known.queue, null::text collate "C", null::jsonb,
           enqueue.payload, null::text, null::jsonb, null::text collate "C", null::smallint, null::smallint,
           null::smallint, null::text collate "C", null::timestamptz, null::jsonb, null::jsonb
      from setting as settings, work_type as known
     where known.work_type = enqueue.work_type and (known.policy ?| array['encrypted', 'keys']) is not true
       and is_short_object(enqueue.payload, settings.payload_limit)
    returning job_ready.job_id, not has_sleeping_master() into job_id, is_awake;
    if is_awake then
        return job_id;
    elsif job_id is null then
        return enqueue(work_type, payload, null);
    elsif may_notify() and try_turn(1) then
        perform pg_notify('txqueue', 'jobs 1 ' || pg_current_xact_id());
    end if;
    return job_id;
end $$;
comment on function txqueue.enqueue(text, jsonb) is 'Enqueue one job with nothing but a payload.';

-- Enqueues one job in the caller's transaction; null means the work type's own policy.
-- Returns its number.
--
-- A job that needs no decision is assigned at once to the node that has granted open credit, if there is one;
-- the notification brings the node the job.
create or replace function txqueue.enqueue(
    work_type varchar, payload jsonb, queue text default null, priority integer default null,
    weight integer default null, not_before timestamptz default null, not_after timestamptz default null,
    "group" text default null, options jsonb default null, tenant text default null,
    "unique" text default null, unique_mode text default null,
    after bigint[] default null, after_any_end boolean default null)
returns bigint
language plpgsql volatile security definer
as $$
declare
    is_plain    boolean;
    is_related  boolean;
    job_id      bigint;
    lane        smallint;
    payload_limit integer;
    aging       interval;
    policy      jsonb;
    keys        jsonb;
    waits_for   text;
    its_state   job_state;
    is_limited  boolean := false;
    is_full     boolean;
begin
    is_plain := num_nonnulls(queue, priority, weight, not_before, not_after, "group", tenant, options) = 0;
    is_related := num_nonnulls("unique", unique_mode, after, after_any_end) > 0;
    job_id := nextval('job_id');
    lane := current_lane();
    select settings.payload_limit, settings.aging, known.policy,
           coalesce(enqueue.queue, known.queue, 'default'), coalesce(enqueue.priority, known.priority, 4),
           coalesce(enqueue.weight, known.weight, 1), coalesce(enqueue.not_before, now()),
           case when known.work_type is null then 'type' when enqueue.not_before > now() then 'time' end
      into strict payload_limit, aging, policy, queue, priority, weight, not_before, waits_for
      from setting as settings left join work_type as known on known.work_type = enqueue.work_type;
    if policy ?| array['encrypted', 'keys'] then
        perform check_encrypted(policy, work_type, payload);
        -- Python clients name the keys of their classes.
        if "group" is null and policy -> 'keys' ? 'group' or tenant is null and policy -> 'keys' ? 'tenant'
           or "unique" is null and policy -> 'keys' ? 'unique' then
            keys := declared_keys(policy, work_type, payload, options, jsonb_build_object(
                'group', "group", 'tenant', tenant, 'unique', "unique", 'unique_mode', unique_mode));
            "group" := coalesce("group", keys ->> 'group');
            tenant := coalesce(tenant, keys ->> 'tenant');
            "unique" := coalesce("unique", keys ->> 'unique');
            unique_mode := coalesce(unique_mode, keys ->> 'unique_mode');
            is_plain := false;
            is_related := is_related or "unique" is not null;
        end if;
    end if;
    -- A job of a known type with nothing but a payload breaks no other rule: to prepare the expression of all
    -- rules costs as much as the insertion. Nor does check_job() help, as this place would not inline it.
    if is_plain and waits_for is null and is_short_object(payload, payload_limit) then
        null;
    elsif find_broken_rule(work_type, payload, payload_limit, priority, weight, queue, "group", tenant, not_before, not_after, options)
          is not null then
        perform refuse_job(work_type, payload, payload_limit, priority, weight, queue, "group", tenant, not_before, not_after, options);
    end if;
    if options is not null then
        options := without_keys_option(options);
        if "unique" is null and options ?| array['as_of', 'once_for'] then
            perform refuse_keyless();
        end if;
    end if;
    if has_limits() then
        -- A larger backlog is counted by heartbeats only.
        select held.is_full or held.backlog <= 10000 and count_backlog(held.key, held.backlog) >= held.backlog
          into is_full from control as held where held.kind = 'queue' and held.key = enqueue.queue;
        is_limited := found;
        if is_full then
            perform refuse_full_queue(queue);
        end if;
    end if;
    if has_open_credit() and waits_for is null and weight = 1 and not is_limited and not is_related
       and "group" is null and tenant is null and not_after is null
       and enqueue_credited(job_id, work_type, payload, queue, priority, not_before, aging, options) then
        return job_id;
    end if;
    its_state := case when waits_for is null then 'ready' else 'waiting' end;
    if is_related then
        job_id := enqueue_related(jsonb_populate_record(null::job, jsonb_build_object(
            'job_id', job_id, 'rank', compute_rank(not_before, not_after, priority, aging), 'not_before', not_before,
            'not_after', not_after, 'enqueued_at', now(), 'weight', weight, 'priority', priority, 'attempt', 0, 'deaths', 0,
            'lane', lane, 'state', its_state, 'waiting_for', waits_for, 'work_type', work_type, 'queue', queue, 'group', "group",
            'tenant', tenant, 'options', options, 'payload', payload)), "unique", unique_mode, after, after_any_end);
    else
        insert into job (job_id, rank, not_before, not_after, enqueued_at, weight, priority, lane, state,
                         waiting_for, work_type, queue, "group", tenant, options, payload)
        values (job_id, compute_rank(not_before, not_after, priority, aging), not_before, not_after, now(), weight,
                priority, lane, its_state, waits_for, work_type, queue, "group", tenant, options, payload);
    end if;
    if tenant is not null then
        perform note_tenants();
    end if;
    -- As in wake_masters(): calling it costs more than this.
    if has_sleeping_master() and not_before < now() + interval '5 seconds' and may_notify() and try_turn(1) then
        perform pg_notify('txqueue', 'jobs 1 ' || pg_current_xact_id());
    end if;
    return job_id;
end $$;
comment on function txqueue.enqueue(varchar, jsonb, text, integer, integer, timestamptz, timestamptz, text, jsonb, text,
    text, text, bigint[], boolean) is 'Enqueue one job in the caller''s transaction.';

-- Whether some master sleeps until a notification: the lowest bit of the sequence asleep. Read without a scan,
-- which would cost as much as a statement.
create or replace function txqueue.has_sleeping_master() returns boolean
language sql volatile  -- inlined
as $$ select coalesce(pg_sequence_last_value('txqueue.asleep') & 1, 0) = 1 $$;

-- Enqueues an array of jobs, each an object with the arguments of enqueue() as its keys, in the
-- caller's transaction; returns their numbers in the order given. All are accepted or none.
create or replace function txqueue.enqueue_many(jobs jsonb) returns bigint[]
language plpgsql volatile security definer
as $$
declare
    known constant text[] := array['work_type', 'payload', 'queue', 'priority', 'weight', 'not_before', 'not_after', 'group',
                                   'options', 'tenant', 'unique', 'unique_mode', 'after', 'after_any_end'];
    wrong text;
begin
    if exists (select from jsonb_array_elements(jobs) as job (value)
                where case jsonb_typeof(value) when 'object' then value - known <> '{}' else true end) then
        select left(min(key), 200) into wrong
          from jsonb_array_elements(jobs) as job (value)
         cross join lateral jsonb_object_keys(case jsonb_typeof(value) when 'object' then value else '{}' end) as key
         where key <> all (known);
        if wrong is null then
            perform refuse('a job of enqueue_many() is not a JSON object', 'pass an array of objects');
        end if;
        perform refuse(format('a job of enqueue_many() has no %s', wrong),
                       'use ' || array_to_string(known, ', '));
    end if;
    return enqueue_checked(jobs);
end $$;
comment on function txqueue.enqueue_many(jsonb) is 'Enqueue many jobs in the caller''s transaction.';

-- The same for jobs of one type that differ by their payloads only; their other arguments are keys of an object.
create or replace function txqueue.enqueue_many(work_type text, payloads jsonb[], arguments jsonb default null) returns bigint[]
language sql volatile security definer
as $$
    select enqueue_many(coalesce(
               jsonb_agg(coalesce(arguments, '{}') || jsonb_build_object('work_type', work_type, 'payload', payload)), '[]'))
      from unnest(payloads) as payload
$$;
comment on function txqueue.enqueue_many(text, jsonb[], jsonb) is 'Enqueue many jobs of one type in the caller''s transaction.';

-- Enqueues an array of jobs for enqueue_many(), and for clients that write no other keys: the search for such
-- keys costs a twentieth of what it takes to write the jobs.
-- The jobs are the outer side of a nested loop, which keeps their order; a hash join reversed it.
create or replace function txqueue.enqueue_checked(jobs jsonb) returns bigint[]
language plpgsql volatile security definer
set enable_hashjoin = off
set enable_mergejoin = off
as $$
declare
    settings  setting;
    ids       bigint[];
    is_soon   boolean;
    has_tenant boolean;
    its_lane  smallint := current_lane();
    keyed     constant jsonb := (select jsonb_agg(work_type) from work_type where policy ? 'keys');
    limited   constant control[] := array(select control from control where backlog is not null);
    full_queues text[];
begin
    if limited <> '{}' then
        full_queues := array(select key from unnest(limited) where is_full);
    end if;
    -- Each of these paths costs a hundredth of what it takes to write the jobs.
    if keyed is not null and jsonb_path_exists(jobs, '$[*].work_type ? (@ == $keyed[*])', jsonb_build_object('keyed', keyed)) then
        jobs := (
            select jsonb_agg(case when known.policy ? 'keys'
                                  then job || declared_keys(known.policy, known.work_type, job -> 'payload', job -> 'options', job)
                                  else job end order by place)
              from jsonb_array_elements(jobs) with ordinality as element (job, place)
              left join work_type as known on known.work_type = job ->> 'work_type');
    end if;
    if jobs @? '$[*]."unique"' or jobs @? '$[*].after' then
        return enqueue_each(jobs);
    end if;
    select * into strict settings from setting;
    with given as (
        select element.*,
               known.work_type is not null as is_known, known.policy,
               coalesce(element.priority, known.priority, 4) as its_priority,
               coalesce(element.not_before, now()) as its_not_before,
               coalesce(element.queue, known.queue, 'default') as its_queue,
               coalesce(element.weight, known.weight, 1) as its_weight
          from jsonb_to_recordset(jobs) as element (
                   work_type text, payload jsonb, queue text, priority integer, weight integer,
                   not_before timestamptz, not_after timestamptz, "group" text, options jsonb, tenant text,
                   unique_mode text)
          left join work_type as known on known.work_type = element.work_type
    ), checked as (
        select given.*, nextval('job_id') as job_id,
               coalesce(check_job(work_type, payload, settings.payload_limit, its_priority, its_weight, its_queue, "group",
                                  tenant, its_not_before, not_after, options),
                        case when unique_mode is not null or options ?| array['as_of', 'once_for'] then refuse_keyless() end,
                        check_encrypted(policy, work_type, payload),
                        case when its_queue = any (full_queues) then refuse_full_queue(its_queue) end) as refused
          from given
    ), put as (
        insert into job (job_id, rank, not_before, not_after, enqueued_at, weight, priority, lane, state,
                         waiting_for, work_type, queue, "group", tenant, options, payload)
        select job_id,
               compute_rank(its_not_before, not_after, its_priority, settings.aging),
               its_not_before, not_after, now(), its_weight, its_priority, its_lane,
               case when is_known and its_not_before <= now() then 'ready'::job_state else 'waiting' end,
               case when not is_known then 'type' when its_not_before > now() then 'time' end,
               work_type, its_queue, "group", tenant, without_keys_option(options), payload
          from checked
         where refused is null
        returning job_id, not_before, tenant
    )
    select array_agg(job_id order by job_id), min(not_before) < now() + interval '5 seconds', count(tenant) > 0
      into ids, is_soon, has_tenant from put;
    if limited <> '{}' then
        -- As many of them for each job as enqueue() counts.
        perform refuse_full_queue(key) from unnest(limited)
          where backlog <= 10000 * cardinality(ids) and count_backlog(key, backlog + 1) > backlog
            and exists (select from job where job_id = any (ids) and state in ('waiting', 'ready') and queue = key);
    end if;
    if has_tenant then
        perform note_tenants();
    end if;
    if is_soon then
        perform wake_masters(cardinality(ids));
    end if;
    return coalesce(ids, '{}');
end $$;

-- Enqueues an array of jobs one by one, as some of them have unique keys or wait for others: those with keys
-- in the order of their keys, so that all transactions lock keys in one order. Returns their numbers in the
-- order given.
create or replace function txqueue.enqueue_each(jobs jsonb) returns bigint[]
language plpgsql volatile
as $$
declare
    ids   bigint[] := array_fill(null::bigint, array[jsonb_array_length(jobs)]);
    this  record;
begin
    for this in
        select its.*, place
          from jsonb_array_elements(jobs) with ordinality as element (value, place),
               jsonb_to_record(value) as its (
                   work_type text, payload jsonb, queue text, priority integer, weight integer,
                   not_before timestamptz, not_after timestamptz, "group" text, options jsonb, tenant text,
                   "unique" text, unique_mode text, after bigint[], after_any_end boolean)
         order by its."unique" is not null, its.work_type, its."unique", place
    loop
        ids[this.place] := enqueue(
            this.work_type, this.payload, this.queue, this.priority, this.weight, this.not_before, this.not_after,
            this."group", this.options, this.tenant, this."unique", this.unique_mode, this.after, this.after_any_end);
    end loop;
    return ids;
end $$;

-- Notifies sleeping masters of jobs; sends nothing while all masters are awake, nor while another transaction is about
-- to notify them of about as many jobs (see try_turn()): the masters that this one wakes look until all transactions
-- have ended that were open then. The text has the number of jobs and that of the transaction, by which
-- each master decides whether it is one of those that the notification wakes; the same text is sent once a
-- transaction. Other notifications, with an empty text, may also be about schedules. Without settings of its
-- own: they would cost more than what it does. A case, as the order of other conditions is not certain.
create or replace function txqueue.wake_masters(jobs integer default 1) returns void
language sql volatile  -- inlined
as $$
    select pg_notify('txqueue', 'jobs ' || jobs || ' ' || pg_current_xact_id())
     where case when txqueue.has_sleeping_master() and txqueue.may_notify()
                then txqueue.try_turn(least(length(jobs::text), 4)) else false end
$$;
