-- Schedules: what programs call comes first, then its steps and what they use.

-- Returns the schedules that are due, as an array of objects, the condition of each among them (see
-- find_met_conditions()), seconds until the next is due (null if none is), and the database's time. A caller
-- that has checked up to a moment passes it as since, so that the dead rows before it are not read again;
-- null reads all. Schedules without a computed moment are always included; those that a class declares only
-- while a node has that class. Those whose condition is busy, a table and a column with a space between, are left
-- out: the caller is checking it.
create or replace function txqueue.due_schedules(
    since timestamptz default null, at_most integer default 500, busy text[] default '{}',
    out due jsonb, out due_in double precision, out seen_at timestamptz)
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    taken integer;
begin
    seen_at := clock_timestamp();
    -- Not as whole rows: these would be read in full, of which one may be damaged.
    with its as materialized (
                  (select this.* from schedule as this
                    where is_active and next_due = '-infinity' and (condition_table || ' ' || condition_column = any (busy)) is not true
                      and (not is_declared or work_type = any (array(select unnest(work_types) from node_info where state in ('alive', 'draining'))))
                    limit at_most)
                  union all
                  (select this.* from schedule as this
                    where is_active and next_due <= seen_at and next_due >= coalesce(since, 'epoch')
                      and (condition_table || ' ' || condition_column = any (busy)) is not true
                      and (not is_declared or work_type = any (array(select unnest(work_types) from node_info where state in ('alive', 'draining'))))
                    order by next_due limit at_most))
    select coalesce(jsonb_agg(jsonb_build_object(
               'schedule_id', schedule_id, 'name', name, 'kind', kind, 'expression', expression, 'zone', zone,
               'seconds', seconds, 'jitter', jitter, 'catch_up', catch_up,
               'priority', coalesce((readable_json(job) ->> 'priority')::integer, (
                   select priority from work_type as known where known.work_type = its.work_type), 4),
               'due', case when isfinite(next_due) then next_due end, 'put_off', put_off,
               'condition', case when condition_table is not null
                                 then jsonb_build_array(condition_table, condition_column, condition_value) end)), '[]'), count(*)
      into due, taken from its;
    if taken >= at_most then
        due_in := 0;
    else
        -- A running job's schedule is due again at the earliest after its cool-down.
        select least(
            (select extract(epoch from next_due - clock_timestamp())::double precision from schedule
              where is_active and next_due > seen_at and isfinite(next_due) order by next_due limit 1),
            (select seconds from schedule where kind = 'cooldown' and is_active and next_due is null
              order by seconds limit 1)) into due_in;
    end if;
end $$;

-- Replaces the times of a schedule by others, given as for put_schedule(); its job and its condition stay. Returns
-- whether anything changed.
create or replace function txqueue.edit_schedule(its_name text, terms jsonb, who text) returns boolean
language plpgsql volatile security definer
as $$
declare
    this      schedule := lock_schedule(its_name);
    condition jsonb := jsonb_build_object('table', this.condition_table, 'column', this.condition_column, 'value', this.condition_value);
begin
    if this.is_declared then
        perform refuse(format('the schedule %s is declared in the code', its_name), 'change it there');
    end if;
    -- Only the times: the operator who changes them need not be able to read the table of the condition.
    perform check_schedule_times(terms);
    return save_schedule(its_name, terms, this.job, condition, who, false);
end $$;

-- Returns the schedule of a name, locked until the end of the transaction.
create or replace function txqueue.lock_schedule(its_name text) returns schedule
language plpgsql volatile
as $$
declare
    this schedule;
begin
    select * into this from schedule where name = its_name for update;
    if this.schedule_id is null then
        perform refuse(format('there is no schedule %s', its_name), 'see: txqueue schedules');
    end if;
    return this;
end $$;

-- Refuses invalid times of a schedule.
create or replace function txqueue.check_schedule_times(terms jsonb) returns void
language plpgsql volatile
as $$
declare
    kind text := terms ->> 'kind';
begin
    if kind is null or kind not in ('cron', 'every', 'cooldown') then
        perform refuse('a schedule is neither cron nor every nor cooldown', 'pass one of these as its kind');
    elsif kind = 'cron' and (terms ->> 'expression' is null or terms ->> 'zone' is null) then
        perform refuse('a cron schedule has no expression or no zone', 'pass both, as in 0 3 * * * and Europe/Berlin');
    elsif kind = 'cron' and terms ->> 'zone' ~ '^($|localtime$|posixrules$|posix/|right/|[^A-Za-z])' then
        perform refuse(format('there is no time zone %L', terms ->> 'zone'), 'use a name such as Europe/Berlin or UTC');
    elsif kind <> 'cron' and coalesce((terms ->> 'seconds')::double precision, 0) not between 1 and 366 * 86400 then
        perform refuse('the period of a schedule is not within a second and a year', 'pass its seconds');
    elsif coalesce((terms ->> 'jitter')::double precision, 0) not between 0 and coalesce((terms ->> 'seconds')::double precision, 3600) then
        perform refuse('the jitter of a schedule is not within its period', 'pass seconds; for cron at most 3600');
    elsif coalesce(terms ->> 'catch_up', 'skip') not in ('skip', 'one', 'all') then
        perform refuse('catch_up is not known', 'pass skip, one or all');
    elsif coalesce(terms ->> 'overlap', 'allow') not in ('allow', 'skip') or kind = 'cooldown' and terms ? 'overlap' then
        perform refuse('the overlap of a schedule is not known', 'pass allow or skip; a cool-down has none');
    elsif coalesce(terms ->> 'since', 'end') not in ('start', 'end') or kind <> 'cooldown' and terms ? 'since' then
        perform refuse('a cool-down counts neither since the start nor since the end', 'pass start or end; other schedules have none');
    elsif coalesce((terms ->> 'times')::numeric, 1) not between 1 and 1000000000 then
        perform refuse('a schedule''s times are not within 1 and 1000000000', 'leave them out for a schedule without an end');
    end if;
end $$;

-- Writes a schedule that was checked before; its next moment is recomputed only if its times change. Returns
-- whether anything changed.
create or replace function txqueue.save_schedule(
    its_name text, terms jsonb, its_job jsonb, condition jsonb, who text, declared boolean) returns boolean
language plpgsql volatile
as $$
begin
    insert into schedule as this (name, kind, expression, zone, seconds, jitter, catch_up, overlap, counts_from, until, times, job,
                                  condition_table, condition_column, condition_value, is_declared)
    values (its_name, terms ->> 'kind', case when terms ->> 'kind' = 'cron' then terms ->> 'expression' end,
            case when terms ->> 'kind' = 'cron' then terms ->> 'zone' end,
            case when terms ->> 'kind' <> 'cron' then (terms ->> 'seconds')::double precision end,
            coalesce((terms ->> 'jitter')::double precision, 0), coalesce(terms ->> 'catch_up', 'skip'),
            coalesce(terms ->> 'overlap', 'allow'), coalesce(terms ->> 'since', 'end'),
            (terms ->> 'until')::timestamptz, (terms ->> 'times')::integer,
            -- A policy that is published later does not bind it.
            its_job - '{not_before,not_after}'::text[] #- case when its_job -> 'options' = '{"keys": true}' then '{options}'::text[]
                when its_job #> '{options,keys}' = 'true' then '{options,keys}' else '{}' end,
            condition ->> 'table', condition ->> 'column', condition ->> 'value',
            declared)
    on conflict (name) do update set
        kind = excluded.kind, expression = excluded.expression, zone = excluded.zone, seconds = excluded.seconds,
        jitter = excluded.jitter, catch_up = excluded.catch_up, overlap = excluded.overlap, counts_from = excluded.counts_from,
        until = excluded.until, times = excluded.times, job = excluded.job,
        condition_table = excluded.condition_table, condition_column = excluded.condition_column,
        condition_value = excluded.condition_value, is_declared = excluded.is_declared, error = null,
        next_due = case when (this.kind, this.expression, this.zone, this.seconds, this.jitter, this.until, this.times)
                             is distinct from (excluded.kind, excluded.expression, excluded.zone, excluded.seconds, excluded.jitter,
                                               excluded.until, excluded.times)
                        then first_due(excluded.kind, this.last_job) else this.next_due end
     where (this.kind, this.expression, this.zone, this.seconds, this.jitter, this.catch_up, this.overlap, this.counts_from,
            this.until, this.times, this.job,
            this.condition_table, this.condition_column, this.condition_value, this.is_declared)
           is distinct from
           (excluded.kind, excluded.expression, excluded.zone, excluded.seconds, excluded.jitter, excluded.catch_up, excluded.overlap, excluded.counts_from,
            excluded.until, excluded.times, excluded.job,
            excluded.condition_table, excluded.condition_column, excluded.condition_value, excluded.is_declared);
    if not found then
        return false;
    end if;
    perform pg_notify('txqueue', '');
    if not declared then
        perform note_action(who, 'schedule', 'schedule ' || its_name, terms);
    end if;
    return true;
end $$;

-- When a new or restarted schedule is due: not computed yet, unless it waits for the end of its job.
create or replace function txqueue.first_due(its_kind text, its_last_job bigint) returns timestamptz
language sql volatile
set enable_seqscan = off
as $$
    select case when its_kind <> 'cooldown' or not exists (
        select from job where job_id = its_last_job and state in ('waiting', 'ready', 'assigned')) then '-infinity'::timestamptz end
$$;

-- Which of some values occur in a column of an application's table or view; a value that is not valid for the
-- column's type does not occur. Runs with the rights of the calling node's role. The caller limits its time.
create or replace function txqueue.find_met_conditions(its_table text, its_column text, given text[]) returns text[]
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    target record;
    met    text[];
begin
    select space.nspname, class.relname,
           -- The type without its length, as values are compared whole.
           (select case atttypid when 'bpchar'::regtype then 'bpchar' else atttypid::regtype::text end
              from pg_attribute where attrelid = class.oid and attname = its_column and attnum > 0 and not attisdropped) as type
      into target
      from pg_class as class join pg_namespace as space on space.oid = class.relnamespace
     where class.oid = to_regclass(its_table);
    if target.type is null then
        perform refuse(format('%s has no column %s', its_table, its_column), 'change the schedule, or make the table again');
    end if;
    -- Compared as the column's type, so that its index can be used.
    execute format('with fit as materialized (select value from unnest($1) as value where txqueue.is_input(value, %L::regtype)) '
                   'select array_agg(value) from fit where exists (select from %I.%I as here where here.%I = fit.value::%s)',
                   target.type, target.nspname, target.relname, its_column, target.type)
       into met using given;
    return coalesce(met, '{}');
end $$;

-- Pauses a schedule until it is resumed; a job that was already enqueued still runs. Returns whether that
-- changed anything.
create or replace function txqueue.pause_schedule(its_name text, who text) returns boolean
language plpgsql volatile security definer
as $$
declare
    this schedule := lock_schedule(its_name);
begin
    update schedule set is_active = false where schedule_id = this.schedule_id;
    perform note_action(who, 'pause', 'schedule ' || its_name);
    return this.is_active;
end $$;

-- Publishes the schedules that the classes of a node declare, and removes those that they no longer declare.
-- The schedules are objects with name, terms and job. Returns how many changed.
create or replace function txqueue.publish_schedules(its_work_types text[], schedules jsonb) returns integer
language plpgsql volatile security definer
as $$
declare
    this    record;
    changed integer;
begin
    -- In sorted order, as jobs of several schedules may be ending concurrently.
    perform from schedule
     where is_declared and work_type = any (its_work_types) or name in (select each ->> 'name' from jsonb_array_elements(schedules) as each)
     order by schedule_id for update;
    delete from schedule
     where is_declared and work_type = any (its_work_types)
       and name <> all (array(select each ->> 'name' from jsonb_array_elements(schedules) as each where each ->> 'name' is not null));
    get diagnostics changed = row_count;
    for this in
        select * from jsonb_to_recordset(schedules) as each (name text, terms jsonb, job jsonb) order by name
    loop
        changed := changed + put_schedule(this.name, this.terms, this.job, null, null, true)::integer;
    end loop;
    return changed;
end $$;

-- Creates a schedule, or changes the one of that name; its next moment is recomputed only if its times
-- change. Returns whether anything changed.
create or replace function txqueue.put_schedule(
    its_name text, terms jsonb, its_job jsonb, condition jsonb, who text, declared boolean default false) returns boolean
language plpgsql volatile security definer
as $$
begin
    perform check_schedule(its_name, terms, its_job, condition);
    -- A node encrypts what its classes declare, and its start must not depend on what others have published.
    perform check_encrypted(policy, work_type, its_job -> 'payload') from work_type where work_type = its_job ->> 'work_type' and not declared;
    if not declared and exists (select from schedule where name = its_name and is_declared) then
        perform refuse(format('the schedule %s is declared on its class', its_name), 'change it there, or take another name');
    end if;
    return save_schedule(its_name, terms, its_job, condition, who, declared);
end $$;

-- Refuses an invalid schedule: its name, its times, its job, or a condition without a column that the caller
-- may read.
create or replace function txqueue.check_schedule(its_name text, terms jsonb, its_job jsonb, condition jsonb) returns void
language plpgsql volatile
as $$
declare
    caller   name := coalesce(nullif(current_setting('role'), 'none'), session_user);
    relation regclass;
    place    smallint;
begin
    if coalesce(length(its_name), 0) not between 1 and 200 then
        perform refuse('the name of a schedule must have 1 to 200 characters',
                       case when length(its_name) > 200 then 'pass a shorter name' else 'pass a name' end);
    end if;
    perform check_schedule_times(terms);
    perform check_job(its_job ->> 'work_type', its_job -> 'payload', (select payload_limit from setting),
                      coalesce((its_job ->> 'priority')::integer, 4), coalesce((its_job ->> 'weight')::integer, 1),
                      coalesce(its_job ->> 'queue', 'default'), its_job ->> 'group', its_job ->> 'tenant', now(), null, its_job -> 'options');
    perform declared_keys(known.policy, known.work_type, its_job -> 'payload', its_job -> 'options', its_job)
       from work_type as known where known.work_type = its_job ->> 'work_type' and known.policy ? 'keys';
    if condition is not null then
        relation := to_regclass(condition ->> 'table');
        select attnum into place from pg_attribute
         where attrelid = relation and attname = condition ->> 'column' and attnum > 0 and not attisdropped;
        if place is null or condition ->> 'value' is null then
            perform refuse(format('the condition names no column of a table: %s', condition),
                           'name the table with its schema, as in public.project, one of its columns, and a value');
        elsif not has_column_privilege(caller, relation, place, 'select') then
            perform refuse(format('%s may not read the column of the condition', caller), 'grant select on it');
        end if;
    end if;
end $$;

-- Removes a schedule; its jobs stay. A schedule declared on a class that a node has is created again when that
-- node starts: pause it instead. Returns its last job.
create or replace function txqueue.remove_schedule(its_name text, who text) returns bigint
language plpgsql volatile security definer
as $$
declare
    this schedule := lock_schedule(its_name);
begin
    if this.is_declared and exists (
        select from node_info where state in ('alive', 'draining') and this.work_type = any (work_types)) then
        perform refuse(format('the schedule %s is declared on its class, which a node has', its_name),
                       'pause it, or remove it there and restart the nodes');
    end if;
    delete from schedule where schedule_id = this.schedule_id;
    perform note_action(who, 'remove', 'schedule ' || its_name);
    return this.last_job;
end $$;

-- Resumes a paused schedule; missed moments are not made up for. Returns whether that changed anything.
create or replace function txqueue.resume_schedule(its_name text, who text) returns boolean
language plpgsql volatile security definer
as $$
declare
    this schedule := lock_schedule(its_name);
begin
    if not this.is_active then
        update schedule set is_active = true, error = null, next_due = first_due(this.kind, this.last_job)
         where schedule_id = this.schedule_id;
        perform pg_notify('txqueue', '');
    end if;
    perform note_action(who, 'resume', 'schedule ' || its_name);
    return not this.is_active;
end $$;

-- Enqueues the job of a schedule now, regardless of its condition and even if it is paused; its next moment
-- stays the same, except for a cool-down, which starts after the job. Returns its number.
create or replace function txqueue.run_schedule(its_name text, who text) returns bigint
language plpgsql volatile security definer
set enable_seqscan = off
as $$
declare
    this   schedule := lock_schedule(its_name);
    at     timestamptz := clock_timestamp();
    ran    bigint;
begin
    if this.kind = 'cooldown' and first_due(this.kind, this.last_job) is null then
        perform refuse(format('job %s of the schedule %s has not ended', this.last_job, its_name), 'wait for it, or cancel it');
    end if;
    ran := (enqueue_many(jsonb_build_array(this.job || jsonb_build_object(
        'options', coalesce(this.job -> 'options', '{}') || schedule_options(its_name, at, this.zone)))))[1];
    if this.kind = 'cooldown' then
        update job set followed = 1 where state in ('waiting', 'ready') and followed is null and job_id = ran;
    end if;
    update schedule set last_due = at, last_job = ran, recent = (ran || recent)[:20],
                        dues = (at || dues)[:20], next_due = case when kind <> 'cooldown' then next_due end,
                        put_off = case when kind <> 'cooldown' then put_off end
     where schedule_id = this.schedule_id;
    perform note_action(who, 'run', 'schedule ' || its_name, jsonb_build_object('jobs', jsonb_build_array(ran), 'as_job', ran));
    return ran;
end $$;

-- The options that a schedule adds to its jobs: its name, the moment, and the time zone of a cron schedule.
create or replace function txqueue.schedule_options(its_name text, moment timestamptz, its_zone text) returns jsonb
language sql stable
as $$
    select jsonb_strip_nulls(jsonb_build_object('schedule', its_name, 'due', moment, 'zone', its_zone))
$$;

-- The last runs of schedules, up to a number for each, the latest first: the due moment, the job, its start
-- and end, how late it first started (or is, if it has yet to start) and how long its last attempt took in seconds, and its
-- outcome (null once history has dropped it). All values come from the rows of the jobs and of their failed attempts.
create or replace function txqueue.schedule_runs(names text[], at_most integer default 20)
returns table (name text, due timestamptz, job_id bigint, outcome text, started_at timestamptz, finished_at timestamptz,
               late double precision, took double precision, attempt smallint, error text)
language sql stable security definer
set enable_seqscan = off
as $$
    select this.name, run.due, run.job_id, job.state::text, began.at, job.finished_at,
           extract(epoch from case when job.state in ('waiting', 'ready') and began.first is null then greatest(clock_timestamp(), run.due)
                                   else began.first end - run.due)::double precision,
           extract(epoch from coalesce(job.finished_at, clock_timestamp()) - began.at)::double precision,
           job.attempt, split_part(readable_text(job.error), E'\n', 1)
      from schedule as this
     cross join lateral unnest(this.recent[:at_most], this.dues[:at_most]) with ordinality as run (job_id, due, place)
      left join lateral (select * from job where job.job_id = run.job_id order by state in ('done', 'cancelled') limit 1) as job on true
      left join lateral (select min(coalesce(tried.began, tried.at)) as at from failed_attempt as tried
                          where tried.job_id = run.job_id and job.attempt > 0) as tried on true
     cross join lateral (select coalesce(job.started_at, job.assigned_at) as at,
                                least(coalesce(tried.at, job.started_at, job.assigned_at),
                                      (readable_json(job.options) ->> 'began')::timestamptz) as first) as began
     where this.name = any (names)
     order by this.name, run.place
$$;

-- The group and the tenant that the jobs of a schedule get, as far as they can be known: those that its job names, and
-- those that the type has published. For lists, which a schedule that is refused now must not make fail.
create or replace function txqueue.scheduled_keys(its_job jsonb, out "group" text, out tenant text)
language plpgsql stable security definer
as $$
declare
    job  jsonb := readable_json(its_job);
    keys jsonb;
begin
    "group" := job ->> 'group';
    tenant := job ->> 'tenant';
    if "group" is not null and tenant is not null then
        return;
    end if;
    select declared_keys(known.policy, known.work_type, job -> 'payload', job -> 'options', job) into keys
      from work_type as known where known.work_type = job ->> 'work_type' and known.policy ? 'keys';
    "group" := coalesce("group", keys ->> 'group');
    tenant := coalesce(tenant, keys ->> 'tenant');
exception when sqlstate 'TXQ01' or data_exception or program_limit_exceeded then
    null;
end $$;

-- Starts cool-downs whose job no longer exists, because it was deleted, or did not belong to this schedule
-- alone, and again those that end later than one that starts now, as the clock was set back. Returns how many.
create or replace function txqueue.start_missed_cooldowns() returns integer
language plpgsql volatile security definer
set enable_seqscan = off
as $$
declare
    mended    integer;
    restarted integer;
begin
    update schedule set next_due = next_due_within(until, times - runs, clock_timestamp() + make_interval(secs => seconds + jitter * random()))
     where kind = 'cooldown' and is_active and next_due is null and not exists (
        select from job where job.job_id = schedule.last_job and state in ('waiting', 'ready', 'assigned'));
    get diagnostics mended = row_count;
    update schedule set next_due = clock_timestamp() + make_interval(secs => seconds)
     where kind = 'cooldown' and is_active and isfinite(next_due) and last_job is not null
       and next_due > clock_timestamp() + make_interval(secs => seconds + jitter + 1);
    get diagnostics restarted = row_count;
    return mended + restarted;
end $$;

-- When a schedule is due next, given its last moment and its remaining runs (null for no limit); infinity if
-- it has ended.
create or replace function txqueue.next_due_within(its_until timestamptz, runs_left bigint, its_next timestamptz) returns timestamptz
language sql immutable
as $$
    select case when runs_left <= 0 or its_next > its_until then 'infinity' else its_next end
$$;

-- Enqueues the jobs of due schedules and stores their next moments, atomically: an array of objects with
-- schedule_id, due (null if it was not computed yet), next ('infinity' for never, null if it depends on the
-- end of the job), moments (those that get a job), and where they apply put_off (the moment
-- whose job is put off until next), error, and ends if the schedule must be paused. Only a schedule whose next_due still
-- equals the given due is changed, so that each moment gets one job even if masters race or die. A schedule
-- whose job needs a locked unique key stays due. A moment whose key another job holds, and one at which the last
-- job of a schedule without overlap has not ended, gets no job and does not count. Returns how many jobs.
create or replace function txqueue.tick(ticks jsonb) returns integer
language plpgsql volatile security definer
set enable_seqscan = off
as $$
declare
    taken   jsonb;
    runs    jsonb;
    ids     bigint[];
    made    bigint[];
    errors  text[];
    held    boolean[];
begin
    with given as (
        select * from jsonb_to_recordset(ticks) as each (
            schedule_id bigint, due timestamptz, next timestamptz, moments timestamptz[], put_off timestamptz, error text, ends boolean)
    ), locked as materialized (
        -- Schedules that another master is ticking are skipped.
        select this.schedule_id, this.name, this.kind, readable_json(this.job) as job, given.next, given.moments, given.put_off, given.error, given.ends,
               this.until, this.times - this.runs as runs_left, this.overlap, this.zone,
               this.overlap = 'skip' and exists (
                   select from job where job_id = this.last_job and state in ('waiting', 'ready', 'assigned')) as is_running
          from given join schedule as this on this.schedule_id = given.schedule_id
         where this.is_active and this.next_due = coalesce(given.due, '-infinity')
         order by this.schedule_id
           for update of this skip locked
    )
    select coalesce(jsonb_agg(jsonb_build_object(
               'schedule_id', schedule_id, 'next', next, 'put_off', put_off, 'ends', ends,
               'error', coalesce(error, 'its job cannot be read: ' || (job ->> 'txqueue cannot read this')))), '[]'),
           coalesce(jsonb_agg(runs.run) filter (where runs.run is not null), '[]')
      into taken, runs
      from locked left join lateral (
           select jsonb_build_object('schedule_id', schedule_id, 'kind', kind, 'due', moment, 'job', job || jsonb_build_object(
                      'not_before', moment,
                      'options', coalesce(job -> 'options', '{}') || schedule_options(name, moment, zone))) as run
             from unnest(moments) with ordinality as each (moment, place)
            where not job ? 'txqueue cannot read this'
              and moment <= coalesce(until, 'infinity') and place <= coalesce(runs_left, place)
               and (overlap = 'allow' or place = 1 and not is_running)) as runs on true;
    if runs <> '[]' then
        select * into ids, errors, held
          from enqueue_runs((select jsonb_agg(run -> 'job' order by place)
                               from jsonb_array_elements(runs) with ordinality as each (run, place)));
        -- Only jobs with unique keys, their own or those of their types, may be there already.
        made := case when jsonb_path_exists(runs, '$[*].job.unique') or exists (select from work_type where policy -> 'keys' ? 'unique')
                     then (
            -- Null for a job that another transaction has enqueued, and after the first place of one.
            select array_agg(case when place = first_place and exists (
                       select from job where job_id = its.id and state in ('waiting', 'ready', 'assigned') and enqueued_at = now())
                       then its.id end order by place)
              from (select id, place, min(place) over (partition by id) as first_place
                      from unnest(ids) with ordinality as given (id, place)) as its) else ids end;
        -- The end of a cool-down's job starts the cool-down.
        update job set followed = 1
         where state in ('waiting', 'ready') and followed is null and job_id = any (array(
            select ids[place] from jsonb_array_elements(runs) with ordinality as each (run, place)
             where run ->> 'kind' = 'cooldown'));
    end if;
    with given as (
        select distinct on (schedule_id) * from jsonb_to_recordset(taken) as each (
            schedule_id bigint, next timestamptz, put_off timestamptz, error text, ends boolean)
    ), ran as (
        select (run ->> 'schedule_id')::bigint as schedule_id, max(errors[place]) as error,
               -- One of several moments is not retried, as the others have their jobs.
               bool_or(held[place]) and count(*) = 1 as is_held,
               (array_agg(ids[place] order by place desc) filter (where ids[place] is not null))[1] as last,
               array_agg(made[place] order by place desc) filter (where made[place] is not null) as jobs,
               array_agg((run ->> 'due')::timestamptz order by place desc) filter (where made[place] is not null) as moments
          from jsonb_array_elements(runs) with ordinality as each (run, place) group by 1
    )
    update schedule as this
       set next_due = next_due_within(this.until, this.times - this.runs - coalesce(cardinality(ran.jobs), 0),
                                  case when this.kind = 'cooldown' and given.next is null and ran.last is null
                                       then clock_timestamp() + make_interval(secs => this.seconds + this.jitter * random())
                                       else given.next end),
           put_off = given.put_off,
           runs = this.runs + coalesce(cardinality(ran.jobs), 0),
           is_active = given.ends is not true,
           error = coalesce(given.error, ran.error),
           last_due = coalesce(ran.moments[1], this.last_due),
           last_job = coalesce(ran.last, this.last_job),
           recent = (coalesce(ran.jobs, '{}') || this.recent)[:20],
           dues = (coalesce(ran.moments, '{}') || this.dues)[:20]
      from given left join ran on ran.schedule_id = given.schedule_id
     where this.schedule_id = given.schedule_id and ran.is_held is not true;
    return coalesce(cardinality(array_remove(made, null)), 0);
end $$;

-- Enqueues jobs of schedules, all at once if none is refused, else one by one, so that a refusal does not
-- affect the others. Returns their numbers in order, null with a reason for a refused one, and whether an
-- open transaction locks something that the job needs, such as its unique key; a tick waits only very briefly
-- for it.
create or replace function txqueue.enqueue_runs(jobs jsonb, out ids bigint[], out errors text[], out held boolean[])
language plpgsql volatile
set lock_timeout = '50ms'
as $$
begin
    begin
        ids := enqueue_many(jobs);
        errors := array_fill(null::text, array[jsonb_array_length(jobs)]);
        held := array_fill(false, array[jsonb_array_length(jobs)]);
        return;
    exception when others then
        if left(sqlstate, 2) not in ('TX', '22', '23', '55') and sqlstate <> '40P01' then
            raise;
        end if;
        held := array[left(sqlstate, 2) in ('55', '40')];
        errors := array[case when held[1] then 'an open transaction holds its unique key' else sqlerrm end];
        ids := array[null::bigint];
    end;
    if jsonb_array_length(jobs) > 1 then
        select array_agg(each.ids[1] order by place), array_agg(each.errors[1] order by place), array_agg(each.held[1] order by place)
          into ids, errors, held
          from jsonb_array_elements(jobs) with ordinality as one (job, place), enqueue_runs(jsonb_build_array(one.job)) as each;
    end if;
end $$;

-- Starts the cool-downs whose jobs have ended, with any outcome. A schedule that another session holds, perhaps an
-- application, is left for propagate_late_ends(), as no completion waits for it.
create or replace function txqueue.start_cooldowns(ids bigint[]) returns void
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    free bigint[] := array(
        select schedule_id from schedule where kind = 'cooldown' and last_job = any (ids) order by schedule_id for update skip locked);
begin
    update schedule set next_due = next_due_within(until, times - runs, greatest(clock_timestamp(), cooldown_start(counts_from, last_job) + make_interval(secs => seconds + jitter * random())))
     where schedule_id = any (free);
    perform note_late_ends(array(
        select last_job from schedule where kind = 'cooldown' and last_job = any (ids) and schedule_id <> all (free)));
end $$;

-- From when a cool-down counts as its job has ended: now, or when the last run of that job was started.
create or replace function txqueue.cooldown_start(counts_from text, its_job bigint) returns timestamptz
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    began timestamptz;
begin
    if counts_from = 'start' then
        select coalesce(started_at, assigned_at) into began from (
            select started_at, assigned_at from job where job_id = its_job and state = 'failed'
            union all
            select started_at, assigned_at from job
             where job_id = its_job and state in ('done', 'cancelled') and finished_at > now() - interval '1 day') as ended;
    end if;
    return coalesce(began, clock_timestamp());
end $$;
