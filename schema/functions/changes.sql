-- Acts on jobs that no node has claimed, and undo: what programs call comes first, then its steps and what they use.

-- Changes the priority of unclaimed jobs. Returns their numbers, and those of the others.
create or replace function txqueue.set_priority(
    ids bigint[], its_priority integer, who text, out changed bigint[], out refused bigint[])
language plpgsql volatile security definer
as $$
begin
    if its_priority is null or its_priority not between 0 and 9 then
        perform refuse(format('priority %s is not within 0 to 9', coalesce(its_priority::text, 'null')),
                       'use 2 for low, 4 for normal, 7 for high');
    end if;
    select * into changed, refused from change_jobs(ids, jsonb_build_object('priority', its_priority), 'priority', who);
end $$;

-- Moves unclaimed jobs to another queue, even if its backlog is full. Returns their numbers, and those of the others.
create or replace function txqueue.move(ids bigint[], its_queue text, who text, out changed bigint[], out refused bigint[])
language plpgsql volatile security definer
as $$
begin
    if coalesce(length(its_queue), 0) not between 1 and 200 then
        perform refuse('a queue name must have 1 to 200 characters', 'name the queue that is meant');
    end if;
    select * into changed, refused from change_jobs(ids, jsonb_build_object('queue', its_queue), 'move', who);
end $$;

-- Gives unclaimed jobs another moment before which they do not start; one in the past starts them as soon as they may.
-- Returns their numbers, and those of the others: also of jobs at a step, and of those whose not_after it reaches.
create or replace function txqueue.reschedule(
    ids bigint[], its_moment timestamptz, who text, out changed bigint[], out refused bigint[])
language plpgsql volatile security definer
as $$
begin
    if (its_moment between '1900-01-01Z' and '9998-12-31 23:59:59.999999Z' or its_moment = 'infinity') is not true then
        perform refuse('the moment is missing, or not between the years 1900 and 9998', 'give another moment, or infinity for never');
    end if;
    select * into changed, refused from change_jobs(ids, jsonb_build_object('not_before', its_moment), 'reschedule', who);
end $$;

-- Gives unclaimed jobs another payload, which fits the rules of enqueue(); they keep their keys. Returns their numbers, and
-- those of the others. Neither the former payload nor the new one is recorded.
create or replace function txqueue.edit(ids bigint[], its_payload jsonb, who text, out changed bigint[], out refused bigint[])
language plpgsql volatile security definer
set enable_seqscan = off
as $$
begin
    perform check_job(its.work_type, its_payload, setting.payload_limit, null, null, null, null, null, null, null, null),
            check_encrypted(known.policy, its.work_type, its_payload)
       from setting, (select distinct work_type from job where job_id = any (ids)) as its
       left join work_type as known on known.work_type = its.work_type;
    select * into changed, refused from change_jobs(ids, jsonb_build_object('payload', its_payload), 'edit', who);
end $$;

-- Deletes jobs with their steps, signals and attempts. One that has not ended is cancelled first, so that others go on
-- as after that. Keys that were enqueued once stay. Returns the numbers of the deleted jobs, and of the others.
create or replace function txqueue.delete_jobs(ids bigint[], who text, out deleted bigint[], out refused bigint[])
language plpgsql volatile security definer
set enable_seqscan = off
as $$
declare
    open  bigint[];
    ended bigint[];
begin
    perform check_isolation('jobs are not deleted');
    open := (lock_acted_on(ids, '{waiting,ready}', to_end => ids)).locked;
    open := (cancel_jobs(open, array_fill(coalesce(nullif(who, ''), session_user::text), array[cardinality(open)]),
                         '{waiting,ready}', true)).cancelled;
    if open <> '{}' and has_waiting_clients() then
        perform notify_ended_jobs(array_to_string(open, ','));
    end if;
    -- It waits for no row, as it holds others.
    ended := array(select job_id from job where job_id = any (ids) and state in ('done', 'failed', 'cancelled') for update skip locked);
    with gone as (
        delete from job where job_id = any (ended) and state in ('done', 'failed', 'cancelled') returning job_id
    )
    select coalesce(array_agg(job_id order by job_id), '{}') into deleted from gone;
    refused := array(select distinct id from unnest(ids) as id where id <> all (deleted) order by id);
    if deleted <> '{}' then
        perform note_action(who, 'delete', format_job_ids(deleted), jsonb_build_object(
            'jobs', deleted, 'deleted', cardinality(deleted), 'refused', cardinality(refused)));
    end if;
end $$;

-- Takes back an act of the last hour: a pause, a resume, a limit, or what it changed of jobs that no later act and no run
-- has changed since; a later act that is undone, or changed nothing, does not count. Returns the numbers of the jobs that
-- are as before, and how many are not, by reason: for those it can be called again.
create or replace function txqueue.undo(its_act bigint, who text, out undone bigint[], out kept jsonb)
language plpgsql volatile security definer
set enable_seqscan = off
as $$
declare
    act action;
begin
    perform check_isolation('no act is undone');
    select * into act from action where action_id = its_act for update;
    if not found then
        perform refuse(format('there is no act %s', its_act), 'txqueue actions lists the acts with their numbers');
    elsif act.at < clock_timestamp() - interval '1 hour' then
        perform refuse(format('act %s is older than an hour', its_act), 'change what it changed by another act');
    elsif act.former is null then
        perform refuse(format('act %s cannot be undone: %s', its_act, case
            when exists (select from action where what = 'undo' and subject = 'act ' || its_act) then 'it was undone before'
            when act.detail ? 'undoes' then format('it took back act %s', act.detail ->> 'undoes')
            when act.subject like 'schedule %'
                 or act.what not in ('pause', 'resume', 'limit', 'cancel', 'priority', 'move', 'reschedule') then 'it has no undo'
            when coalesce(act.detail ->> 'cancelled', act.detail ->> 'changed')::integer > 0 then 'it changed more than 10,000 jobs'
            else 'it changed nothing that undo restores' end), 'see: txqueue actions');
    end if;
    undone := '{}';
    kept := '{}';
    if jsonb_typeof(act.former) = 'object' then
        perform restore_control(act, who);
    else
        select * into undone, kept from restore_jobs(act);
    end if;
    if kept <> '{}' and undone = '{}' then
        return;
    end if;
    perform note_action(who, 'undo', 'act ' || its_act, kept || jsonb_build_object('jobs', undone, 'undone', cardinality(undone)));
    update action set
        former = (
            select jsonb_agg(each) from jsonb_array_elements(case when kept <> '{}' then act.former else '[]' end) as each
             where (each ->> 'job_id')::bigint <> all (undone)),
        detail = detail || jsonb_build_object('undone_by', (
            select max(action_id) from action where what = 'undo' and subject = 'act ' || its_act))
     where action_id = its_act;
end $$;

-- Restores the pause or the limits that a queue, a group or a tenant had before an act, for undo().
create or replace function txqueue.restore_control(act action, who text) returns void
language plpgsql volatile
as $$
declare
    former control := jsonb_populate_record(null::control, act.former);
    this   control;
    later  bigint := (select min(action_id) from action
                       where subject = act.subject and action_id > act.action_id and action.former is not null);
begin
    if later is not null then
        perform refuse(format('the %s was changed since, by act %s', act.subject, later), 'undo that act first');
    elsif act.what = 'limit' then
        perform set_limit(
            former.kind, former.key, former.concurrency, former.rate, case when former.rate is not null then former.burst end,
            case former.kind when 'tenant' then former.share end, case former.kind when 'queue' then former.reserve end, who,
            '{concurrency,rate,burst,share,reserve,backlog}', former.backlog);
        -- It takes back a change, and is none itself; later ones have nothing to take back.
        update action set former = null, detail = detail - 'cleared' || jsonb_build_object('undoes', act.action_id)
         where subject = act.subject and action_id > act.action_id and action.former is not null;
    else
        this := lock_control(former.kind, former.key);
        this.is_paused := act.what = 'resume' and former.is_paused;
        if act.what = 'resume' then
            this.held_until := former.held_until;
            this.held_by := former.held_by;
        end if;
        perform save_control(this);
        perform note_action(who, case when this.is_paused then 'pause' else 'resume' end, act.subject,
                            jsonb_build_object('undoes', act.action_id));
    end if;
end $$;

-- Restores what jobs were before an act, for undo(). A job is left as it is if a later act names it, or if it is not as
-- the act left it. Jobs that were cancelled are opened again, with those that were cancelled as their children.
create or replace function txqueue.restore_jobs(act action, out undone bigint[], out kept jsonb)
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    was      constant jsonb := (select jsonb_object_agg(each ->> 'job_id', each) from jsonb_array_elements(act.former) as each);
    given    constant jsonb := jsonb_strip_nulls(jsonb_build_object(
        'priority', act.detail -> 'priority', 'queue', act.detail -> 'queue', 'not_before', act.detail -> 'not_before'));
    later    constant bigint[] := array(
        select distinct id::bigint from (
            select 'act ' || action_id, jsonb_array_elements(detail -> 'jobs') from action
             where action_id > act.action_id and what <> 'undo' and jsonb_typeof(detail -> 'jobs') = 'array'
            except
            select subject, jsonb_array_elements(detail -> 'jobs') from action
             where action_id > act.action_id and what = 'undo') as late (subject, id));
    all_ids  constant bigint[] := array(select key::bigint from jsonb_object_keys(was) as key order by 1);
    ids      bigint[] := array(select unnest(all_ids) except select unnest(later));
    failed   bigint[];
    this     job;
begin
    undone := '{}';
    if act.what = 'cancel' then
        failed := array(select id from unnest(ids) as id where was -> id::text ->> 'state' = 'failed');
        ids := reopen(array(select id from unnest(ids) as id
                             where id <> all (failed) and exists (select from job where job_id = id and state = 'cancelled')));
        failed := (lock_acted_on(failed, '{cancelled}', may_wait => false)).locked;
        perform set_config('queue_rows.are_moved', 'on', true);
        for this in
            delete from job where job_id = any (failed) and state = 'cancelled' returning *
        loop
            this := jsonb_populate_record(this, was -> this.job_id::text);
            insert into job values (this.*);
            undone := undone || this.job_id;
        end loop;
    else
        ids := (lock_acted_on(ids, '{waiting,ready}')).locked;
        ids := array(
            select job.job_id from job, jsonb_populate_record(job, was -> job.job_id::text || given) as left_as
             where job.job_id = any (ids) and job.state in ('waiting', 'ready')
               and (job.priority, job.queue, job.not_before, job.attempt, job.deaths)
                 = (left_as.priority, left_as.queue, left_as.not_before, left_as.attempt, left_as.deaths));
    end if;
    undone := undone || replace_unclaimed(ids, null, was);
    select coalesce(jsonb_object_agg(concat(reason, holder), jobs), '{}') into kept from (
        select reason, count(*) as jobs, min(holder) as holder from (
            select case when now_is.job_id is null then 'deleted since' when id = any (later) then 'changed by a later act'
                        when held.job_id is not null then 'unique key held, as by job '
                        when now_is.state = 'cancelled' and act.what = 'cancel' then 'not to be opened again'
                        when now_is.state in ('waiting', 'ready') then 'changed since' else now_is.state || ' since' end as reason,
                   case when id <> all (later) then held.job_id end as holder
              from unnest(all_ids) as id left join job as now_is on now_is.job_id = id
              left join unique_job as held on now_is.state = 'cancelled' and act.what = 'cancel' and held.job_id <> id
                   and held.work_type = now_is.work_type and held.key = now_is.options ->> 'unique'
             where id <> all (undone)
            union all
            select 'running then', null from generate_series(1, (act.detail ->> 'requested')::integer) where act.what = 'cancel') as each
         group by reason) as counted;
end $$;

-- Changes columns of unclaimed jobs for an operator: priority, queue, not_before or payload. Returns the numbers of the
-- changed jobs and of the others.
create or replace function txqueue.change_jobs(
    ids bigint[], given jsonb, what text, who text, out changed bigint[], out refused bigint[])
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    locked bigint[];
    others bigint[];
    former jsonb;
begin
    perform check_isolation('jobs are not changed');
    locked := (lock_acted_on(ids, '{waiting,ready}')).locked;
    if given ? 'not_before' then
        locked := array(
            select job_id from job
             where job_id = any (locked) and state in ('waiting', 'ready')
               and (not_after <= (given ->> 'not_before')::timestamptz) is not true
               and not (state = 'waiting' and fingerprint is null and exists (
                   select from job_step as step where step.job_id = job.job_id and step.ended_at is null)));
    end if;
    -- Those that have these values already are not touched, and so not named in the act.
    others := array(
        select job_id from job
         where job_id = any (locked) and state in ('waiting', 'ready') and jsonb_populate_record(job, given) is distinct from job);
    if cardinality(others) <= 10000 and not given ? 'payload' then
        former := (select jsonb_agg(former_of(job)) from job where job_id = any (others) and state in ('waiting', 'ready'));
    end if;
    changed := array(select unnest(locked) order by 1);
    refused := array(select distinct id from unnest(ids) as id where id <> all (changed) order by id);
    others := replace_unclaimed(others, given);
    if others <> '{}' then
        perform note_action(who, what, format_job_ids(others), given - 'payload' || jsonb_build_object(
            'jobs', others, 'changed', cardinality(others), 'refused', cardinality(refused)), former);
    end if;
end $$;

-- Replaces unclaimed jobs, locked by the caller with their groups, by ones with other values: the same for all, or what
-- each was. One whose moment is given waits for that. Returns their numbers.
create or replace function txqueue.replace_unclaimed(ids bigint[], given jsonb, was jsonb default null) returns bigint[]
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    this     job;
    groups   text[] := '{}';
    replaced bigint[] := '{}';
    aging    constant interval := (select setting.aging from setting);
begin
    -- Parked jobs may rank before what is noted of their groups, whose keys are locked.
    delete from group_front where "group" in (select "group" from job_waiting where waiting_for = 'group' and job_id = any (ids));
    perform set_config('queue_rows.are_moved', 'on', true);
    for this in
        delete from job where job_id = any (ids) and state in ('waiting', 'ready') returning *
    loop
        groups := groups || this."group";
        this := jsonb_populate_record(this, coalesce(given, (was -> this.job_id::text) - '{state,waiting_for,finished_at}'::text[]));
        if was is null then
            this.rank := compute_rank(this.not_before, this.not_after, this.priority, aging);
        end if;
        if was is not null or given ? 'not_before' then
            if this.state = 'ready' or this.waiting_for in ('time', 'type', 'group', 'rate') then
                this := make_eligible(this);
            end if;
            if this.state = 'ready' and was -> this.job_id::text ->> 'waiting_for' = 'signal' then
                this := wait_for_steps(this, null, null, false);
                -- The signal may have come, or come at this moment.
                perform note_late_ends(array[this.job_id]);
            end if;
        end if;
        if given ? 'payload' and this.options ? 'unread' then
            -- Each version tries the new one.
            this.options := nullif(this.options - 'unread', '{}');
            delete from unread_job where unread_job.job_id = this.job_id;
            if this.waiting_for = 'version' then
                this := make_eligible(this);
            end if;
        end if;
        insert into job values (this.*);
        replaced := replaced || this.job_id;
    end loop;
    groups := array_remove(groups, null);
    if groups <> '{}' then
        perform free_groups(groups);
    end if;
    if replaced <> '{}' then
        perform pg_notify('txqueue', '');
    end if;
    return array(select unnest(replaced) order by 1);
end $$;

-- What undo() restores of a job.
create or replace function txqueue.former_of(this job) returns jsonb
language sql stable
as $$
    select jsonb_build_object(
        'job_id', this.job_id, 'state', this.state, 'waiting_for', this.waiting_for, 'priority', this.priority, 'queue', this.queue,
        'not_before', this.not_before, 'rank', this.rank, 'attempt', this.attempt, 'deaths', this.deaths, 'error', this.error,
        'fingerprint', this.fingerprint, 'failed_at', this.failed_at, 'finished_at', this.finished_at)
$$;
