-- Acts of operators on jobs: what programs call comes first, then its steps and what they use.

-- Enqueues a copy of an archived job: see enqueue_again(). Its columns are an object with the archived
-- work_type, queue, priority, weight, group and tenant; and the archived payload, if the copy's is another one. Returns the number.
create or replace function txqueue.repeat_archived(
    its_job_id bigint, columns jsonb, its_payload jsonb, its_options jsonb, who text) returns bigint
language plpgsql volatile security definer
as $$
declare
    this job := jsonb_populate_record(null::job, jsonb_build_object(
        'job_id', its_job_id, 'work_type', columns -> 'work_type', 'queue', columns -> 'queue', 'priority', columns -> 'priority',
        'weight', columns -> 'weight', 'group', columns -> 'group', 'tenant', columns -> 'tenant'));
begin
    this.payload := coalesce(columns -> 'payload', its_payload);
    this.options := its_options;
    return enqueue_again(with_payload(this, its_payload), who);
end $$;

-- Enqueues a copy of an ended job: the same payload and policy, due now, waiting for no other job. If another
-- job holds its unique key, nothing is enqueued. A copy has the outcomes of the job's parents. Returns the number
-- of the new job, or of that other one.
create or replace function txqueue.enqueue_again(this job, who text) returns bigint
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    outcomes constant jsonb := case jsonb_typeof(this.options) when 'object' then this.options -> 'parents' end;
    number bigint;
begin
    -- Older versions stored what no option is.
    this.options := case jsonb_typeof(this.options) when 'object' then (
        select jsonb_object_agg(key, value) from jsonb_each(this.options) where key = any (known_options() || 'unique'::text)) end;
    number := enqueue(
        this.work_type, this.payload, this.queue, this.priority, this.weight, null, null, this."group",
        coalesce(this.options, '{}') - array['unique', 'as_of', 'once_for'] || '{"keys": false}', this.tenant, this.options ->> 'unique');
    -- Clients cannot give this option. A job with parents has no unique key, so the number is that of the copy.
    if outcomes is not null then
        update job set options = coalesce(options, '{}') || jsonb_build_object('parents', outcomes)
         where job_id = number and state in ('waiting', 'ready', 'assigned');
    end if;
    perform note_action(who, 'repeat', format_job_ids(array[this.job_id]), jsonb_build_object(
        'jobs', array[this.job_id, number], 'as_job', number));
    return number;
end $$;

-- Records an act of an operator, with what undo() needs, which goes after an hour. The number of one that can be undone is
-- in a setting until the end of the transaction.
create or replace function txqueue.note_action(
    who text, what text, subject text, detail jsonb default '{}', former jsonb default null) returns void
language plpgsql volatile
set enable_seqscan = off
as $$
begin
    if length(who) > 300 then
        perform refuse(format('the operator and why have %s characters, more than 300', length(who)), 'say why in 200 or fewer');
    end if;
    if former is not null then
        update action as old set former = null where action_id = any (array(
            select action_id from action as late where late.former is not null and late.at < now() - interval '1 hour'
               for update skip locked));
    end if;
    with noted as (
        insert into action (who, what, subject, detail, former)
        values (coalesce(nullif(note_action.who, ''), session_user), note_action.what, note_action.subject,
                jsonb_strip_nulls(note_action.detail), note_action.former)
        returning action_id
    )
    select set_config('queue_rows.act', case when former is not null then action_id::text else '' end, true) into what from noted;
end $$;

-- Enqueues a job with the policy and the keys of its type. Returns its number.
create or replace function txqueue.enqueue_by_operator(its_work_type text, its_payload jsonb, who text) returns bigint
language plpgsql volatile security definer
as $$
declare
    number constant bigint := enqueue(its_work_type, its_payload, null, options => '{"keys": true}');
begin
    perform note_action(who, 'enqueue', format_job_ids(array[number]), jsonb_build_object('jobs', array[number]));
    return number;
end $$;

-- Enqueues a copy of an ended job, with another payload if one is given: see enqueue_again(). Returns the number.
create or replace function txqueue.repeat(its_job_id bigint, who text, its_payload jsonb default null) returns bigint
language plpgsql volatile security definer
set enable_seqscan = off
as $$
declare
    this job;
    past record;
    damage text;
begin
    select * into this from job where job_id = its_job_id
     order by state in ('done', 'failed', 'cancelled') limit 1;
    if not found then
        select * into past from find_archived(its_job_id) limit 1;
        if found then
            perform refuse(format('job %s is archived: it was %s on %s', its_job_id, past.state, past.day),
                           format('from a shell: txqueue repeat %s; in Python: queue.repeat()', its_job_id));
        end if;
        perform refuse(format('there is no job %s', its_job_id), 'check the number; old history is dropped');
    elsif this.state not in ('done', 'failed', 'cancelled') then
        perform refuse(format('job %s has not ended', its_job_id), 'wait for its end, or enqueue another');
    end if;
    damage := find_damage(this.options, coalesce(its_payload, this.payload));
    if damage is not null then
        perform refuse(format('job %s cannot be repeated: %s', its_job_id, damage),
                       'restore its row from a backup, or enqueue a job with the same payload');
    end if;
    return enqueue_again(with_payload(this, coalesce(its_payload, this.payload)), who);
end $$;

-- A job with another payload. A key that its type has computed from the former one is computed from it; one that only the
-- class can compute is refused.
create or replace function txqueue.with_payload(this job, its_payload jsonb) returns job
language plpgsql volatile
as $$
declare
    former constant jsonb := readable_json(this.payload);
    keys   jsonb := jsonb_build_object('group', this."group", 'tenant', this.tenant, 'unique', this.options -> 'unique');
    name   text;
    parts  jsonb;
begin
    if former is distinct from its_payload then
        for name, parts in select its.* from work_type as known, jsonb_each((known.policy -> 'keys') - 'unique_mode') as its
                            where known.work_type = this.work_type
        loop
            if jsonb_typeof(parts) <> 'array' then
                perform refuse(format('the %s key of %s is computed by its class, which the database does not have', name, this.work_type),
                               'enqueue a job with that payload and key, from Python or by txqueue enqueue');
            elsif keys ->> name is not distinct from compute_key(this.work_type, name, parts, former, false) then
                keys := keys || jsonb_build_object(name, compute_key(this.work_type, name, parts, its_payload));
            end if;
        end loop;
        this."group" := keys ->> 'group';
        this.tenant := keys ->> 'tenant';
        this.options := coalesce(this.options, '{}') || jsonb_build_object('unique', keys -> 'unique');
    end if;
    this.payload := its_payload;
    return this;
end $$;

-- The form in which an action names jobs.
create or replace function txqueue.format_job_ids(ids bigint[]) returns text
language sql immutable
as $$ select case cardinality(ids) when 1 then 'job ' || ids[1] else cardinality(ids) || ' jobs' end $$;

-- Restarts assigned jobs, such as hung ones: their runs end, without an outcome of their own, and the jobs run
-- again. A job without a group returns to the queue at once, so that its old token holds no longer; one of a group
-- returns once its node has ended its run, so that two jobs of the group do not run at a time. Each node reads at its
-- next heartbeat which runs to end. With is_counted the run spends an attempt.
--
-- Returns [[incarnation, assignment, job_id], ...] of the first and of the second, and the numbers of the other jobs:
-- those that no node holds, those whose rows an open transaction has locked, as it may be ending them, and those
-- whose rows are damaged. A job that this transaction has enqueued has no run to end: if it is assigned already, its
-- run begins with the commit, which no longer asks whether it is still meant, so that another would run beside it.
create or replace function txqueue.restart(
    ids bigint[], who text, is_counted boolean default false,
    out restarted jsonb, out requested jsonb, out refused bigint[])
language plpgsql volatile security definer
set enable_seqscan = off
as $$
declare
    operator constant text := coalesce(nullif(who, ''), session_user::text);
    spent    constant integer := coalesce(is_counted, false)::integer;
    this     job;
    token    jsonb;
    is_new   boolean;
    returned bigint[] := '{}';
    acted    bigint[];
begin
    perform check_isolation('jobs are not restarted');
    restarted := '[]';
    requested := '[]';
    for this in
        -- It waits for no row, as it holds others.
        select * from job where job_id = any (sound_jobs(ids, '{assigned}')) and state = 'assigned' and enqueued_at <> now()
         order by job_id for update skip locked
    loop
        insert into request (incarnation, job_id, assignment, who, is_restart)
        values (this.incarnation, this.job_id, this.assignment, operator, true) on conflict do nothing;
        is_new := found;
        token := jsonb_build_array(jsonb_build_array(this.incarnation, this.assignment, this.job_id));
        if is_new or this."group" is null then
            -- No attempt has failed.
            insert into failed_attempt (job_id, attempt, began, node_id, error, restarted_by)
            values (this.job_id, least(this.attempt + 1, 32767), coalesce(this.started_at, this.assigned_at), this.node_id,
                    'restarted by ' || operator, operator);
        end if;
        if this."group" is not null then
            requested := requested || token;
            update job_assigned set attempt = least(attempt + spent, 32767)
             where job_id = this.job_id and assignment = this.assignment and is_new and spent > 0;
        else
            restarted := restarted || token;
            returned := returned || this.job_id;
            delete from job_assigned where job_id = this.job_id and assignment = this.assignment;
            this.attempt := least(this.attempt + spent, 32767);
            this.progress := null;
            this.state := 'ready';
            this := without_assignment(this);
            insert into job values (this.*);
        end if;
    end loop;
    acted := returned || array(select (each ->> 2)::bigint from jsonb_array_elements(requested) as each);
    refused := array(select distinct id from unnest(ids) as id where id <> all (acted) order by id);
    if returned <> '{}' then
        perform wake_masters(cardinality(returned));
    end if;
    if acted <> '{}' then
        perform note_action(who, 'restart', format_job_ids(acted), jsonb_build_object(
            'jobs', acted, 'restarted', cardinality(returned), 'requested', jsonb_array_length(requested),
            'refused', cardinality(refused)));
    end if;
end $$;

-- Retries a job, as retry() does, from one of its steps on: that step and those that began after it are done again.
create or replace function txqueue.retry_from(its_job_id bigint, its_step text, who text, out forgotten integer)
language plpgsql volatile security definer
set enable_seqscan = off
as $$
declare
    retried bigint[];
    found   text := (select state::text from job where job_id = its_job_id limit 1);
begin
    perform check_isolation('jobs are not run again');
    if found is null then
        perform refuse(format('there is no job %s', its_job_id), 'check the number; old history is dropped');
    end if;
    if found not in ('failed', 'cancelled') then
        perform refuse(format('job %s cannot be retried now: it is %s, not failed or cancelled', its_job_id, found),
                       case found when 'done' then 'enqueue the work again' else format('cancel it first, or see: txqueue explain %s', its_job_id) end);
    end if;
    if not exists (select from job_step where job_id = its_job_id and name = its_step) and not exists (
           select from job where job_id = its_job_id and state = 'cancelled' and steps @> jsonb_build_array(jsonb_build_object('name', its_step))) then
        perform refuse(format('job %s has no step %s', its_job_id, its_step), format('see: txqueue steps %s', its_job_id));
    end if;
    retried := reopen(array[its_job_id]);
    if retried = '{}' then
        perform refuse(format('job %s cannot be retried now', its_job_id), format('see: txqueue explain %s', its_job_id));
    end if;
    with gone as (
        delete from job_step as step using job_step as first
         where first.job_id = its_job_id and first.name = its_step and step.job_id = its_job_id and step.number >= first.number
        returning step.name
    ), freed as (
        -- A wait that begins anew takes a signal of the same key again.
        delete from job_signal as sent using gone where sent.job_id = its_job_id and sent.taken_by = gone.name
    )
    select count(*) into forgotten from gone;
    perform pg_notify('txqueue', '');
    perform note_action(who, 'retry', format_job_ids(retried), jsonb_build_object('jobs', retried, 'from', its_step));
end $$;

-- Cancels jobs: unclaimed ones at once; the nodes of the others read the request at their next heartbeat.
-- Returns the numbers of the first, [[incarnation, assignment, job_id], ...] of the second, and the numbers
-- of jobs that have ended or do not exist. Failed jobs become cancelled and keep their errors.
create or replace function txqueue.cancel(
    ids bigint[], who text, out cancelled bigint[], out requested jsonb, out refused bigint[])
language plpgsql volatile security definer
as $$
declare
    found  bigint[];
    former jsonb;
begin
    perform check_isolation('jobs are not cancelled');
    select ended.cancelled, ended.requested, ended.former into cancelled, requested, former
      from cancel_jobs(ids, array_fill(coalesce(nullif(who, ''), session_user::text), array[cardinality(ids)]),
                       '{waiting,ready,failed}', true) as ended;
    found := cancelled || array(select (each ->> 2)::bigint from jsonb_array_elements(requested) as each);
    refused := array(select distinct id from unnest(ids) as id where id <> all (found) order by id);
    if cancelled <> '{}' and has_waiting_clients() then
        perform notify_ended_jobs(array_to_string(cancelled, ','));
    end if;
    if found <> '{}' then
        perform note_action(who, 'cancel', format_job_ids(found), jsonb_build_object(
            'jobs', found, 'cancelled', cardinality(cancelled), 'requested', jsonb_array_length(requested),
            'refused', cardinality(refused)), case when jsonb_array_length(former) between 1 and 10000 then former end);
    end if;
end $$;

-- Cancels jobs in some unassigned states, each for the operator beside it, and records a request for the others
-- that have not ended. Returns the numbers of the first, [[incarnation, assignment, job_id], ...] of the second, and what
-- those that are cancelled now, children too, were before. A caller that may not wait for a job that an open transaction holds leaves a request for it.
create or replace function txqueue.cancel_jobs(
    ids bigint[], whos text[], states job_state[], may_wait boolean, out cancelled bigint[], out requested jsonb,
    out former jsonb)
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    this   job;
    locks  constant record := lock_acted_on(ids, states, to_end => ids, may_wait => may_wait);
    named  constant bigint[] := ids;
    ended  bigint[] := '{}';
    groups text[] := '{}';
    were   jsonb[] := '{}';
    heirs  jsonb;
begin
    cancelled := '{}';
    perform set_config('queue_rows.are_moved', 'on', true);
    for this in
        delete from job where job_id = any (locks.locked) and state = any (states) returning *
    loop
        were := were || former_of(this);
        if this.state = 'failed' then
            this.fingerprint := null;
            this.failed_at := null;
        else
            this.error := 'cancelled by ' || whos[array_position(ids, this.job_id)];
            ended := ended || this.job_id;
            groups := groups || this."group";
        end if;
        this.state := 'cancelled';
        this.waiting_for := null;
        this.finished_at := clock_timestamp();
        if this.options ? 'steps' then
            delete from group_hold where job_id = this.job_id;
        end if;
        insert into job values (this.*);
        cancelled := cancelled || this.job_id;
    end loop;
    -- A job that no node holds, as it was returned to the queue at this moment, is any node's to cancel, unless its
    -- row is damaged.
    ids := array(select job_id from job
                  where job_id = any (ids) and (state = 'assigned' or state in ('waiting', 'ready')
                    and find_damage(options, payload, result, progress, error) is null));
    insert into request (incarnation, job_id, assignment, who)
    select coalesce(job.incarnation, 0), job.job_id, coalesce(job.assignment, 0), whos[array_position(named, job.job_id)] from job
     where job.job_id = any (ids) and job.state in ('waiting', 'ready', 'assigned')
        on conflict (incarnation, job_id, assignment) do update set is_restart = false, who = excluded.who where request.is_restart;
    requested := (select coalesce(jsonb_agg(jsonb_build_array(coalesce(job.incarnation, 0), coalesce(job.assignment, 0), job.job_id)), '[]')
                    from job where job.job_id = any (ids) and job.state in ('waiting', 'ready', 'assigned'));
    heirs := (select jsonb_agg(former_of(job)) from job where job_id = any (locks.children) and state = 'waiting');
    -- Not only the marked jobs, as another job may just have been enqueued to follow one.
    if ended <> '{}' and (propagate_ends(ended, 'cancelled', locks.children)).rank is not null then
        perform wake_masters(1000);
    end if;
    former := to_jsonb(were) || coalesce((
        select jsonb_agg(heir) from jsonb_array_elements(heirs) as heir
         where exists (select from job where job_id = (heir ->> 'job_id')::bigint and state = 'cancelled')), '[]');
    groups := array_remove(groups, null);
    if groups <> '{}' then
        perform free_groups(groups);
    end if;
end $$;

-- Locks the jobs in some states on which an operator acts, with what a change of them needs: the unique keys of
-- jobs to reopen, the children of those and of jobs to end, and the keys of groups. Returns the locked jobs and
-- the children. Jobs whose rows are damaged are not among them.
--
-- A transaction of an application may hold the row of a job, such as one that coalesce_into() has ended, until
-- its completion, which needs children and keys. So this never waits for a row while it holds a lock: it frees
-- all, waits for that row alone, and starts over. A caller that may not wait, as it holds other locks, gets only
-- the jobs for which all is free.
create or replace function txqueue.lock_acted_on(
    ids bigint[], states job_state[], to_reopen bigint[] default '{}', to_end bigint[] default '{}', may_wait boolean default true,
    out locked bigint[], out children bigint[])
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    sound   constant bigint[] := sound_jobs(ids, states);
    groups  text[];
    missing bigint;
begin
    ids := sound;
    to_reopen := array(select unnest(to_reopen) intersect select unnest(sound));
    to_end := array(select unnest(to_end) intersect select unnest(sound));
    loop
        begin
            -- Keys that other jobs hold stay with those.
            insert into unique_job (work_type, key, job_id)
            select work_type, options ->> 'unique', job_id from job
             where job_id = any (to_reopen) and state = any (states) and state in ('failed', 'cancelled')
               and jsonb_typeof(options) = 'object' and options ? 'unique'
             order by work_type, options ->> 'unique', job_id
                on conflict do nothing;
            children := lock_children(to_reopen, to_end, may_wait);
            groups := lock_groups(ids, may_wait);
            locked := array(
                select job_id from job
                 where job_id = any (ids) and state = any (states)
                   and ("group" is null or "group" = any (groups) or state not in ('waiting', 'ready'))
                 order by job_id for update skip locked);
            missing := (select min(job_id) from job
                         where job_id = any (ids) and state = any (states) and job_id <> all (locked));
            if not may_wait then
                locked := array(select id from unnest(locked) as id where id <> all (find_held_children(locked, children)));
                exit;
            end if;
            exit when missing is null;
            raise exception using errcode = 'TXQ05';
        exception when sqlstate 'TXQ05' then
            null;
        end;
        begin
            perform from job where job_id = missing and state = any (states) for update;
            raise exception using errcode = 'TXQ05';
        exception when sqlstate 'TXQ05' then
            null;
        end;
    end loop;
end $$;

-- Opens jobs again: failed and cancelled ones start over with all attempts, and jobs that wait for a time run
-- now, or all of them at a given moment. Returns their numbers. The rule for those that are related to them, the
-- same for a retry and a postponement: an opened job has not ended.
--   - It waits for those of its parents that have not ended, and is not opened if one of them can never be done.
--   - Children that still wait, such as a batch's callback, also wait for its new end, even if its former end came
--     before they were enqueued. A child that has run, or was cancelled, stays as it is.
--   - It takes its unique key again, and is not opened if another job holds the key.
create or replace function txqueue.reopen(ids bigint[], at timestamptz default null) returns bigint[]
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    this     job;
    again    job;
    ended    job[] := '{}';
    reopened bigint[] := '{}';
    states   constant job_state[] := case when at is null then '{waiting,failed,cancelled}' else '{waiting,failed}' end;
    locks    constant record := lock_acted_on(ids, states, to_reopen => ids);
begin
    -- A request to cancel an earlier run must not end the new one.
    delete from request where job_id = any (ids) and not is_restart and not exists (
        select from job_assigned as held where held.job_id = request.job_id and held.assignment = request.assignment);
    perform set_config('queue_rows.are_moved', 'on', true);
    for this in
        delete from job
         where job_id = any (locks.locked) and state = any (states)
           and (state <> 'waiting' or waiting_for = 'time' or waiting_for = 'version' and at is null)
        returning *
    loop
        if this.state = 'waiting' then
            this := reset_for_retry(this, at);
            insert into job values (this.*);
            reopened := reopened || this.job_id;
        else
            ended := ended || this;
        end if;
    end loop;
    -- Parents come before their children, which wait for the new runs.
    for this in select * from unnest(ended) as each order by each.job_id loop
        if (jsonb_typeof(this.options) = 'object' and this.options ? 'unique') is not true or exists (
               select from unique_job as held
                where held.work_type = this.work_type and held.key = this.options ->> 'unique' and held.job_id = this.job_id) then
            again := hold_for_parents_again(reset_for_retry(this, at));
            if again.state <> 'cancelled' then
                reopened := reopened || this.job_id;
                this := restore_steps(again);
            end if;
        end if;
        insert into job values (this.*);
    end loop;
    perform wait_for_new_ends(reopened, locks.children);
    return reopened;
end $$;

-- Returns a job in its state for a retry by an operator, now or at a given moment. A job whose failure is
-- postponed stays of its kind.
create or replace function txqueue.reset_for_retry(this job, at timestamptz default null) returns job
language plpgsql volatile
as $$
declare
    settings setting;
begin
    if at is not null then
        this.not_before := at;
    -- That of a job with steps is the end of a wait, which a run goes on with.
    elsif this.state = 'waiting' or this.attempt > 0 or this.options ? 'steps' or this.not_before < clock_timestamp() then
        this.not_before := clock_timestamp();
    end if;
    select * into strict settings from setting;
    if at is not null or this.state <> 'waiting' then
        this.rank := compute_rank(this.not_before, this.not_after, this.priority, settings.aging);
    else
        -- A job that waits for a retry keeps its place; one that was due later does not go behind all until then.
        this.rank := least(this.rank, compute_rank(this.not_before, this.not_after, this.priority, settings.aging));
    end if;
    if this.state <> 'waiting' then
        this.attempt := 0;
        this.deaths := 0;
    end if;
    if this.options ? 'unread' then
        -- Each version tries again.
        this.options := nullif(this.options - 'unread', '{}');
        delete from unread_job where unread_job.job_id = this.job_id;
    end if;
    this.waiting_for := case
        when not exists (select from work_type as known where known.work_type = this.work_type) then 'type'
        when this.not_before > clock_timestamp() then 'time' end;
    this.state := case when this.waiting_for is null then 'ready' else 'waiting' end;
    this.finished_at := null;
    this.result := null;
    if at is null then
        this.fingerprint := null;
        this.failed_at := null;
    end if;
    return without_assignment(this);
end $$;

-- Returns a job without the steps that older code has put into its row, which become steps of it again.
create or replace function txqueue.restore_steps(this job) returns job
language plpgsql volatile
as $$
begin
    insert into job_step (job_id, name, kind, result, error, signal, child, child_type, until, began_at, ended_at)
    select this.job_id, name, kind, step -> 'result', error, signal, child, child_type, until, began_at, ended_at
      from jsonb_array_elements(this.steps) with ordinality as each (step, place),
           jsonb_to_record(step) as its (name text, kind text, error text, signal text, child bigint, child_type text, until timestamptz,
                                         began_at timestamptz, ended_at timestamptz)
     order by place;
    this.steps := null;
    -- The end of a job that is done deletes its signals, if it is marked.
    if has_signals() and exists (select from job_signal where job_signal.job_id = this.job_id) then
        this.followed := coalesce(this.followed, 0);
    end if;
    return this;
end $$;

-- Retries jobs: failed and cancelled ones start over with all attempts, behind those that are ready now; jobs
-- that wait for a time, a retry or a version that can read them run now. A job that was cancelled before its
-- not_before waits for it again, and a child waits for its parents again. The last error is kept until the next
-- one. Returns the numbers of the retried jobs and of the others, including jobs whose unique key another job
-- holds, and children with a parent that is not done and not retried. See reopen().
create or replace function txqueue.retry(ids bigint[], who text, out retried bigint[], out refused bigint[])
language plpgsql volatile security definer
set enable_seqscan = off
as $$
begin
    perform check_isolation('jobs are not run again');
    retried := reopen(ids);
    refused := array(select distinct id from unnest(ids) as id where id <> all (retried) order by id);
    if retried <> '{}' then
        perform pg_notify('txqueue', '');
        perform note_action(who, 'retry', format_job_ids(retried), jsonb_build_object(
            'jobs', retried, 'retried', cardinality(retried), 'refused', cardinality(refused)));
    end if;
end $$;

-- The process that has locked a row, by the row's xmax and the table that has it; null if none has. The xmax of a session
-- that locked the row in a savepoint, released by now, is no lock of its own, and that of several sessions is the number
-- of a list: then it is the oldest transaction that can have made it and has locked rows of that table.
create or replace function txqueue.row_locker(its_xmax xid, leaf oid) returns integer
language plpgsql volatile security definer
as $$
declare
    latest  constant xid8 := pg_snapshot_xmax(pg_current_snapshot());
    lockers xid[] := array[its_xmax];
begin
    begin
        lockers := lockers || array(select xid from pg_get_multixact_members(its_xmax));
    exception when others then
        null;  -- It is the number of no list.
    end;
    return (
        select own.pid
          from unnest(lockers) as locker,
               -- Its number since the first transaction of all.
               lateral (select latest::text::bigint + age(latest::xid) - age(locker) as number) as whole,
               lateral (select number > 2 and age(locker) > 0 and pg_xact_status(number::text::xid8) = 'in progress' as is_open) as state
          join pg_locks as own on own.locktype = 'transactionid' and own.granted
          join pg_locks as its on its.pid = own.pid and its.relation = leaf and its.granted and its.mode like 'Row%'
         where own.transactionid = locker or is_open and age(own.transactionid) > age(locker)
         order by (own.transactionid = locker) desc, age(own.transactionid) desc limit 1);
end $$;

-- Whether a job has not ended.
create or replace function txqueue.is_live_job(its_job_id bigint) returns boolean
language sql stable
set enable_seqscan = off
as $$
    select exists (select from job where job_id = its_job_id and state in ('waiting', 'ready', 'assigned'))
$$;

-- What keeps a failed or cancelled job from being opened again, by the rules of reopen(): the first of its parents
-- that have ended and are not done, whether it has too many parents for their numbers to be stored, and the job
-- that holds its unique key. Null for a job in another state.
create or replace function txqueue.reopen_obstacles(this job) returns jsonb
language plpgsql volatile
set enable_seqscan = off
set plan_cache_mode = force_custom_plan
as $$
declare
    parents bigint[] := '{}';
begin
    if this.state not in ('failed', 'cancelled') or jsonb_typeof(this.options) is distinct from 'object' then
        return null;
    end if;
    if jsonb_typeof(this.options -> 'after') = 'array' and this.options -> 'after_any_end' is distinct from 'true' then
        parents := array(select value::bigint from jsonb_array_elements_text(this.options -> 'after') as value where value ~ '^[0-9]{1,18}$');
    end if;
    return jsonb_build_object(
        'parents', coalesce((select jsonb_agg(parent) from (
            select parent.job_id, parent.state from job as parent
             where parent.job_id = any (parents) and parent.state in ('failed', 'cancelled')
             order by parent.job_id limit 5) as parent), '[]'),
        'has_unnamed_parents', coalesce(jsonb_typeof(this.options -> 'after'), 'null') <> 'array'
            and this.options ? 'after' and not this.options ? 'parents',
        'holder', (select held.job_id from unique_job as held
             where held.work_type = this.work_type and held.key = this.options ->> 'unique' and held.job_id <> this.job_id));
end $$;
