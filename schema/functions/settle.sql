-- Ends of jobs that did not just return: what programs call comes first, then its steps and what they use.

-- Writes the outcomes of jobs that did not just return: an array of objects with job_id, lane, assignment,
-- outcome ('done', 'retry', 'snooze', 'next', 'unread', 'suspended', 'failed', 'cancelled'), and where they apply delay
-- (seconds), waits (see suspend_job()), error, trace and frames (an error's traceback, see txqueue/store/node/outcomes.py), error_class, log, result, progress, version (of the type that could not read it), cost and throttled (see settle_rates()),
-- application (the version that ran it), and
-- unstarted if it never ran. Only jobs whose token still holds
-- are changed. Returns their numbers, whether other jobs may have become ready, and the first of those that are known,
-- as complete() does.
create or replace function txqueue.settle(
    its_incarnation integer, outcomes jsonb, out settled bigint[], out freed boolean, out freed_rank text, out freed_job bigint)
language plpgsql volatile security definer
set enable_seqscan = off
as $$
declare
    ended   record;
    moved_on record;
    locked  bigint[];
    failed  bigint[];
    groups  text[];
    first   ready_head;
    resumed ready_head;
begin
    ended := end_assigned(its_incarnation, outcomes);
    settled := ended.settled;
    freed := ended.limited;
    failed := ended.failed;
    groups := ended.groups;
    if ended.retried is not null then
        freed := take_newest(ended.retried) or freed;
    end if;
    if ended.others then
        moved_on := move_on(its_incarnation, outcomes);
        settled := settled || moved_on.settled;
        freed := freed or moved_on.freed;
        failed := failed || moved_on.failed;
        groups := groups || moved_on.groups;
        resumed := moved_on.first;
    end if;
    if ended.done || failed || ended.stopped <> '{}' then
        locked := lock_children(ended.done, failed || ended.stopped);
        if ended.done <> '{}' then
            first := propagate_ends(ended.done, 'done', locked);
        end if;
        if failed <> '{}' then
            first := least(first, propagate_ends(failed, 'failed', locked));
        end if;
        if ended.stopped <> '{}' then
            first := least(first, propagate_ends(ended.stopped, 'cancelled', locked));
        end if;
    end if;
    if ended.of_rates is not null then
        perform lock_keys(array(select distinct key_of(name) from unnest(groups) as name));
        perform settle_rates(ended.of_rates);
    end if;
    if groups <> '{}' then
        first := least(first, free_groups(groups));
        freed := true;
    end if;
    first := least(first, resumed);
    if first.rank is not null then
        freed := true;
        freed_rank := first.rank;
        freed_job := first.job_id;
    end if;
end $$;

-- Moves assigned jobs to the partitions of their outcomes, all with one statement, except those with a next
-- stage, those whose payload was not read, and those that wait for a step. Of two outcomes of one job the first counts. Returns the jobs for which settle() has more to do. Its
-- plan is pinned: each job is found by its number, and its outcome by a hash, so that many cost no more each
-- than a few.
create or replace function txqueue.end_assigned(
    its_incarnation integer, outcomes jsonb,
    out settled bigint[], out groups text[], out limited boolean, out done bigint[], out failed bigint[], out stopped bigint[],
    out retried bigint[], out others boolean, out of_rates jsonb)
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set enable_nestloop = off
set plan_cache_mode = force_generic_plan
as $$
declare
    -- Members of options that say how the last run ended.
    passing constant text[] := '{no_key,throttled}';
    often bigint[];
    ran_on bigint[];
begin
    with given as materialized (
        select each.*
          from rows from (jsonb_to_recordset(outcomes) as (
                   job_id bigint, assignment bigint, outcome text, delay double precision, error text, result jsonb,
                   unstarted boolean, progress jsonb, error_class text, log text, trace text, shape text, frames text,
                   cost double precision, throttled boolean, application text)) with ordinality
               as each (job_id, assignment, outcome, delay, error, result, unstarted, progress, error_class, log, trace, shape, frames,
                        cost, throttled, application, place)
    ), said as materialized (
        select distinct on (job_id, assignment) * from given order by job_id, assignment, place
    ), traces as (
        -- Of all outcomes: one that does not count may have the frames of others. One value, as a join would copy
        -- all rows.
        select jsonb_object_agg(trace, E'\n\n' || frames) as frames_of from given where frames is not null and trace is not null
    ), gone as (
        delete from job_assigned
         where job_id = any (array(select said.job_id from said where (said.outcome in ('next', 'unread', 'suspended')) is not true)) and incarnation = its_incarnation
           -- Not a join, which might read all outcomes for each job.
           and ((job_id, assignment) in (select said.job_id, said.assignment from said where (said.outcome in ('next', 'unread', 'suspended')) is not true)) is true
        returning *
    ), ended as (
        select gone.*, said.place, said.outcome, said.delay, said.result as its_result, said.progress as its_progress,
               left(said.error_class, 200) as its_class, left(said.log, 8192) as its_log,
               said.outcome in ('retry', 'snooze') as waits,
               said.unstarted is not true as ran, said.cost, said.throttled,
               coalesce(said.error || ((select frames_of from traces) ->> said.trace) || said.error, said.error, gone.error) as its_error,
               case when said.outcome not in ('retry', 'failed') then null
                    when (select frames_of from traces) ? said.trace then coalesce(said.shape, said.error)
                    else error_shape(coalesce(said.error, gone.error)) end collate "C" as shape,
               said.trace, left(said.application, 100) as application,
               case when said.outcome = 'snooze' or said.unstarted then gone.attempt else least(gone.attempt + 1, 32767) end as runs
          from gone join said on said.job_id = gone.job_id and said.assignment = gone.assignment
    ), known as (
        -- Failures that come together are mostly of few kinds.
        select jsonb_object_agg(concat(trace, ' ', shape), fingerprint(concat(shape, (select frames_of from traces) ->> trace))) as kinds
          from (select distinct trace, shape from ended where shape is not null) as few
    ), noted as (
        insert into failed_attempt (job_id, attempt, began, node_id, error, error_class, log, work_type, application, fingerprint)
        select job_id, runs, coalesce(started_at, assigned_at), node_id,
               -- To count its characters takes longer than to write it.
               case when octet_length(its_error) > 4000 then left(its_error, 4000) else its_error end, its_class, its_log,
               work_type, application, (select kinds from known) ->> concat(trace, ' ', shape)
          from ended where outcome in ('retry', 'failed') and ran
        returning work_type, application, fingerprint
    ), told as (
        insert into version_failure (application, work_type, fingerprint)
        select distinct application, work_type, fingerprint from noted where application is not null and fingerprint is not null
         order by 1, 2, 3 on conflict do nothing
    ), put as (
        -- The attempt of a waiting job has ended, and its process is alive.
        insert into job (job_id, rank, not_before, not_after, enqueued_at, assigned_at, started_at, finished_at,
            assignment, node_id, incarnation, weight, priority, attempt, deaths, lane,
            state, waiting_for, work_type, queue, "group", tenant, options, payload,
            error, fingerprint, failed_at, result, progress, followed)
        select job_id, rank,
            case when waits then clock_timestamp() + make_interval(secs => greatest(0, least(coalesce(delay, 0), 3155760000)))
                 else not_before end,
            not_after, enqueued_at, case when not waits then assigned_at end, case when not waits then started_at end,
            case when not waits then clock_timestamp() end,
            case when not waits then assignment end, case when not waits then node_id end, case when not waits then incarnation end,
            weight, priority, runs, case when waits and ran then 0 else deaths end, lane,
            case when waits then 'waiting' else outcome end::job_state, case when waits then 'time' end,
            work_type, queue, "group", tenant,
            case when waits and its_class = 'txqueue.errors.KeyUnavailable' then with_no_key(options, its_incarnation)
                 -- The run of a schedule has begun, whenever it goes on: see schedule_runs().
                 -- How often in a row: see `judge_throttled`.
                 when throttled then coalesce(options, '{}') - 'no_key'
                      || jsonb_build_object('throttled', coalesce((options -> 'throttled')::integer, 0) + 1)
                      || case when options ? 'due' and not options ? 'began' then jsonb_build_object('began', coalesce(started_at, assigned_at)) else '{}' end
                 when outcome = 'snooze' and ran and options ? 'due' and not options ? 'began'
                 then (options - passing) || jsonb_build_object('began', coalesce(started_at, assigned_at))
                 when options ?| passing then nullif(options - passing, '{}') else options end, payload,
            its_error, (select kinds from known) ->> concat(trace, ' ', shape), case when shape is not null then clock_timestamp() end,
            case when waits then result else its_result end,
            case when not waits then coalesce(its_progress, progress) end, followed
          from ended
    )
    select coalesce(array_agg(job_id order by place), '{}'),
           coalesce(array_agg("group") filter (where "group" is not null), '{}'),
           count(counted) > 0,
           coalesce(array_agg(job_id) filter (where followed is not null and outcome = 'done'), '{}'),
           coalesce(array_agg(job_id) filter (where followed is not null and outcome = 'failed'), '{}'),
           coalesce(array_agg(job_id) filter (where followed is not null and outcome = 'cancelled'), '{}'),
           array_agg(job_id) filter (where runs > 100 and ran and outcome in ('retry', 'failed')),
           array_agg(job_id) filter (where "group" is not null and options ? 'steps' and (ran or not waits)),
           array_agg(job_id) filter (where outcome = 'retry' and options ? 'unique'),
           exists (select from said where said.outcome in ('next', 'unread', 'suspended')),
           jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
               'job_id', job_id, 'work_type', work_type, 'weight', weight, 'group', "group", 'tenant', tenant, 'queue', queue,
               -- Least ignores nulls.
               'cost', case when cost is not null then greatest(0, least(cost, 1e9)) end,
               'delay', case when throttled then greatest(0, least(coalesce(delay, 0), 3155760000)) end))) filter (where cost is not null or throttled)
      into settled, groups, limited, done, failed, stopped, often, ran_on, retried, others, of_rates
      from ended;
    if ran_on is not null then
        delete from group_hold where job_id = any (ran_on);
    end if;
    if often is not null then
        perform forget_attempts(job_id) from unnest(often) as job_id;
    end if;
end $$;

-- Returns the options of a job with one more run of a node that has no key for it; of runs that have ended, none is kept.
create or replace function txqueue.with_no_key(options jsonb, its_incarnation integer) returns jsonb
language sql stable
as $$
    select case when jsonb_typeof(options) = 'object' then options else '{}' end || jsonb_build_object('no_key', (
        select jsonb_agg(distinct incarnation)
          from (select incarnation from node_info where options -> 'no_key' @> to_jsonb(incarnation) union select its_incarnation) as each))
$$;

-- Deletes all but the latest hundred failed attempts of a job.
create or replace function txqueue.forget_attempts(its_job_id bigint) returns void
language plpgsql volatile
set enable_seqscan = off
as $$
begin
    delete from failed_attempt
     where job_id = its_job_id
       and attempt <= (select max(attempt) from failed_attempt where job_id = its_job_id) - 100;
end $$;

-- Moves assigned jobs whose runs have not ended them, for settle(): to their next stages, to other nodes if their payload
-- was not read, or to the waiting ones. Returns the jobs for which settle() has more to do, whether others may have become
-- ready, and the first of those that can run on at once after a wait.
create or replace function txqueue.move_on(
    its_incarnation integer, outcomes jsonb,
    out settled bigint[], out groups text[], out failed bigint[], out freed boolean, out first txqueue.ready_head)
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    said    record;
    this    job;
    readied integer := 0;
begin
    settled := '{}';
    groups := '{}';
    failed := '{}';
    freed := false;
    for said in
        select * from jsonb_to_recordset(outcomes) as each (
            job_id bigint, assignment bigint, outcome text, error text, unstarted boolean, stage jsonb, progress jsonb,
            version text, waits jsonb)
         where outcome in ('next', 'unread', 'suspended')
    loop
        delete from job_assigned where job_id = said.job_id and assignment = said.assignment
           and incarnation = its_incarnation returning * into this;
        continue when not found;
        settled := settled || this.job_id;
        groups := groups || this."group";
        freed := freed or this.counted is not null or said.outcome <> 'suspended';
        this.progress := coalesce(said.progress, this.progress);
        case said.outcome
            when 'next' then this := start_next_stage(this, said.stage, said.error, said.unstarted is not true);
            when 'unread' then this := leave_unread(this, said.error, said.version);
            else this := suspend_job(this, said.waits);
        end case;
        insert into job values (this.*);
        if this.state = 'failed' and this.followed is not null then
            failed := failed || this.job_id;
        elsif this.state = 'ready' and said.outcome = 'suspended' then
            first := least(first, row(null, null, this.rank, this.job_id, null, null)::ready_head);
        elsif this.state = 'ready' and said.outcome = 'unread' then
            readied := readied + 1;
        end if;
    end loop;
    groups := array_remove(groups, null);
    if readied > 0 then
        perform wake_masters(readied);
    end if;
end $$;

-- Returns a job as its next stage under the same number: another work type and payload, with no attempt
-- spent. If the stage is not valid, the job is failed, so that other jobs settled with it are not affected.
create or replace function txqueue.start_next_stage(this job, stage jsonb, its_error text, has_run boolean) returns job
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    old      job;
    settings setting;
    known    work_type;
    its      record;
    -- The latest twenty, with the one that ends now.
    stages   constant jsonb := coalesce(jsonb_path_query_array(this.options -> 'stages', '$[last - 18 to last]'), '[]');
begin
    this.error := coalesce(its_error, this.error);
    this.fingerprint := null;
    this.failed_at := null;
    this.waiting_for := null;
    this.handed := null;
    this.counted := null;
    this.attempt := least(this.attempt + has_run::integer, 32767);
    if this.options ? 'steps' then
        -- The names of steps are those of one stage.
        delete from group_hold where job_id = this.job_id;
        delete from job_step where job_id = this.job_id;
    end if;
    old := this;
    begin
        select * into strict settings from setting;
        select * into its from jsonb_to_record(stage) as given (
            work_type text, payload jsonb, queue text, priority integer, weight integer, not_before timestamptz,
            not_after timestamptz, "group" text, options jsonb, tenant text);
        select * into known from work_type where work_type.work_type = its.work_type;
        this.work_type := its.work_type;
        this.payload := its.payload;
        this.queue := coalesce(its.queue, known.queue, 'default');
        this.priority := coalesce(its.priority, known.priority, 4);
        this.weight := coalesce(its.weight, known.weight, 1);
        this.not_before := coalesce(its.not_before, clock_timestamp());
        this.not_after := its.not_after;
        this."group" := its."group";
        this.tenant := its.tenant;
        this.options := coalesce(its.options - 'keys', '{}') || jsonb_strip_nulls(jsonb_build_object('unique', this.options -> 'unique'))
                        || jsonb_build_object('stages', stages || jsonb_build_object(
                            'stage', coalesce((stages -> -1 ->> 'stage')::integer, 0) + 1, 'work_type', old.work_type, 'runs', old.attempt,
                            'node', (select name from node_info where node_id = old.node_id),
                            'began', coalesce(old.started_at, old.assigned_at), 'ended', clock_timestamp()));
        perform check_job(this.work_type, this.payload, settings.payload_limit, this.priority, this.weight, this.queue, this."group",
                          this.tenant, this.not_before, this.not_after, its.options);
        perform check_encrypted(known.policy, this.work_type, this.payload);
        this.rank := compute_rank(this.not_before, this.not_after, this.priority, settings.aging);
        this.attempt := 0;
        this.deaths := 0;
        this.error := null;
        if this.tenant is not null then
            perform note_tenants();
        end if;
        return make_eligible(without_assignment(this));
    exception when sqlstate 'TXQ01' or data_exception then
        old.state := 'failed';
        old.finished_at := clock_timestamp();
        old.error := 'its next stage was refused: ' || sqlerrm;
        old.fingerprint := fingerprint(old.error);
        old.failed_at := old.finished_at;
        return old;
    end;
end $$;

-- Returns a job whose payload a worker could not read as left to other nodes; no attempt is spent. Such a job
-- is ready for nodes with another version of its type, and waits while there is none; a version that has tried
-- before tries again later. It fails once its time is over, which counts from its first reader.
create or replace function txqueue.leave_unread(this job, its_error text, version text) returns job
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    first    unread_job;
    is_again constant boolean := coalesce(this.options -> 'unread' ? version, false);
begin
    insert into unread_job as known (job_id, since, until)
    select this.job_id, now, now + make_interval(secs => coalesce(
               (select (report ->> 'unreadable_for')::double precision from node_info where incarnation = this.incarnation), 3600))
      from clock_timestamp() as now
    -- A job that starts over, as a retry or a new stage, has all its time again.
    on conflict (job_id) do update set checked_at = clock_timestamp(),
       since = case when this.options ? 'unread' then known.since else excluded.since end,
       until = case when this.options ? 'unread' then known.until else excluded.until end
    returning * into first;
    this.error := its_error;
    this.options := case when jsonb_typeof(this.options) = 'object' then this.options else '{}' end
        || jsonb_build_object('unread', (
            select jsonb_agg(distinct name)
              from (select jsonb_array_elements_text(coalesce(this.options -> 'unread', '[]')) as name union select version) as each
             where name is not null));
    if first.until <= clock_timestamp()
       and (is_again or not has_reader(this.work_type, this.queue, this.options -> 'unread')) then
        return fail_unread(this);
    end if;
    return return_unread(this, case when is_again then least(60, 1 + extract(epoch from clock_timestamp() - first.since)) end);
end $$;

-- Returns a job as failed because no node could read its payload in time, and records the attempt.
create or replace function txqueue.fail_unread(this job) returns job
language plpgsql volatile
as $$
begin
    delete from unread_job where unread_job.job_id = this.job_id;
    delete from group_hold where group_hold.job_id = this.job_id;
    this.state := 'failed';
    this.waiting_for := null;
    this.finished_at := clock_timestamp();
    this.failed_at := this.finished_at;
    this.fingerprint := fingerprint(this.error);
    this.attempt := least(this.attempt + 1, 32767);
    insert into failed_attempt (job_id, attempt, began, node_id, error, error_class)
    values (this.job_id, this.attempt, coalesce(this.started_at, this.assigned_at, this.finished_at), this.node_id,
            left(this.error, 4000), 'txqueue.errors.UnreadablePayload');
    return this;
end $$;

-- Returns an assigned job whose payload was not read in its state after that: it waits for a number of seconds; if
-- that is null, it is ready, or waits until a node may be able to read it.
create or replace function txqueue.return_unread(this job, delay double precision) returns job
language plpgsql volatile
as $$
begin
    this.waiting_for := case
        when delay is not null then 'time'
        when not has_reader(this.work_type, this.queue, this.options -> 'unread') then 'version' end;
    this.state := case when this.waiting_for is null then 'ready' else 'waiting' end;
    if delay is not null then
        this.not_before := clock_timestamp() + make_interval(secs => delay);
    end if;
    return without_assignment(this);
end $$;

-- Returns a job that is no longer assigned to a node, for the current lane.
create or replace function txqueue.without_assignment(this job) returns job
language plpgsql volatile
as $$
begin
    this.lane := current_lane();
    this.assignment := null;
    this.node_id := null;
    this.incarnation := null;
    this.assigned_at := null;
    this.started_at := null;
    this.handed := null;
    this.counted := null;
    return this;
end $$;

-- Records that jobs have been running for longer than a beat, with the progress that their handlers reported:
-- a JSON text each, or null.
create or replace function txqueue.started(
    its_incarnation integer, assignments bigint[], ids bigint[], seconds double precision[],
    progress text[] default null)
returns integer
language plpgsql volatile security definer
set enable_seqscan = off
as $$
declare
    noted integer;
begin
    update job_assigned as job
       set started_at = coalesce(job.started_at, clock_timestamp() - make_interval(secs => ran.seconds)),
           progress = coalesce(ran.progress::jsonb, job.progress)
      from unnest(assignments, ids, seconds, started.progress) as ran (assignment, job_id, seconds, progress)
     where job.job_id = ran.job_id and job.assignment = ran.assignment
       and job.incarnation = its_incarnation
       and (job.started_at is null or ran.progress is not null);
    get diagnostics noted = row_count;
    return noted;
end $$;

-- Stores the error of a handler that failed after its own transaction had completed the job: the job stays done.
create or replace function txqueue.note_late_error(
    its_incarnation integer, its_assignment bigint, its_job_id bigint, its_error text) returns void
language plpgsql volatile security definer
set enable_seqscan = off
as $$
begin
    update job_done set error = left(its_error, 20000)
     where job_id = its_job_id and assignment = its_assignment and incarnation = its_incarnation;
end $$;

-- Stores what a handler returned after its own transaction had completed the job without a result. Returns whether it is
-- kept: not if other jobs follow that job, which may have read that it has none.
create or replace function txqueue.note_late_result(
    its_incarnation integer, its_assignment bigint, its_job_id bigint, its_result jsonb) returns boolean
language plpgsql volatile security definer
set enable_seqscan = off
as $$
begin
    update job_done set result = its_result
     where job_id = its_job_id and assignment = its_assignment and incarnation = its_incarnation and result is null
       and (followed = 1) is not true;
    return found;
end $$;
