-- Durable steps: what programs call comes first, then its steps and what they use.

-- The steps of a job, in their order, as the archive has them.
create or replace function txqueue.kept_steps(its_job_id bigint) returns jsonb
language plpgsql stable security definer
set enable_seqscan = off
as $$
begin
    return (
        select jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
                   'name', name, 'kind', kind, 'error', error, 'signal', signal, 'child', child, 'child_type', child_type,
                   'until', until, 'began_at', began_at, 'ended_at', ended_at))
                   || case when result is null then '{}' else jsonb_build_object('result', readable_json(result)) end order by number)
          from job_step where job_id = its_job_id);
end $$;

-- The steps of a job: their results as text, the seconds until a wait ends by itself, and how the child of a call has
-- ended.
create or replace function txqueue.load_steps(
    its_job_id bigint, out name text, out kind text, out result text, out error text, out is_ended boolean,
    out seconds double precision, out child bigint, out child_state text, out child_type text, out child_result text,
    out child_error text)
returns setof record
language plpgsql volatile security definer
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
    return query
    select step.name, step.kind, step.result::text, step.error, step.ended_at is not null,
           extract(epoch from step.until - clock_timestamp())::double precision, step.child, past.state,
           coalesce(past.work_type, step.child_type), past.result, past.error
      from job_step as step
      left join lateral (
            (select other.state::text, other.work_type, other.result::text, other.error from job as other
              where other.job_id = step.child and step.ended_at is null
              order by other.state in ('done', 'failed', 'cancelled') desc limit 1)
             union all
            -- History may have dropped it.
            select step.child_state, step.child_type, step.result::text, step.error where step.child_state is not null
             limit 1) as past on true
     where step.job_id = its_job_id
     order by step.number;
end $$;

-- Returns a job whose run has ended at a wait in its state after that: waiting for a signal, a moment, or the ends of its
-- children, or ready if it can run on at once. waits has the name and kind of each, and the first time its signal, the
-- seconds until it ends by itself, its child, and hold_group if the job keeps its place in its group meanwhile, unless
-- it waits for a job of that group, which could then never start. No attempt is spent.
create or replace function txqueue.suspend_job(this job, waits jsonb) returns job
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    names   constant text[] := array(select each ->> 'name' from jsonb_array_elements(waits) as each);
    awaited record;
    is_refused boolean;
begin
    -- What the present code does not await takes no signal.
    delete from job_step where job_id = this.job_id and ended_at is null and kind = 'signal' and name <> all (names);
    insert into job_step (job_id, name, kind, signal, annotation, child, until)
    select this.job_id, name, kind, signal, annotation, child,
           case when seconds is not null then clock_timestamp() + make_interval(secs => greatest(0, least(seconds, 3155760000))) end
      from jsonb_to_recordset(waits) as each (
               name text, kind text, signal text, annotation text, child bigint, seconds double precision)
        on conflict do nothing;
    -- Two jobs that call each other at a time see it only here, once both calls are committed.
    update job_step set ended_at = clock_timestamp(),
           error = format('job %s, called by step %s, waits for the end of job %s: neither would go on', child, to_jsonb(name), job_id)
     where job_id = this.job_id and ended_at is null and child is not null and awaits_end(child, this.job_id);
    is_refused := found;
    -- With a snapshot that is newer than the lock of the job: propagate_late_ends() skips a locked job, and sees
    -- one that waits.
    select min(step.until) as until, array_agg(step.child) filter (where step.child is not null) as children,
           cardinality(signalled_jobs(array[this.job_id])) > 0 as is_signalled
      into awaited from job_step as step
     where step.job_id = this.job_id and step.ended_at is null and step.name = any (names);
    if this."group" is not null then
        delete from group_hold where job_id = this.job_id;
        insert into group_hold (job_id, "group")
        select this.job_id, this."group"
         where waits @> '[{"hold_group": true}]'
           and not exists (select from job as other where other.job_id = any (awaited.children) and other."group" = this."group"
                              and other.state in ('waiting', 'ready', 'assigned'));
    end if;
    this.options := (coalesce(this.options, '{}') - '{no_key,throttled}'::text[])
        || case when this.options ? 'due' and not this.options ? 'began'
                then jsonb_build_object('began', coalesce(this.started_at, this.assigned_at)) else '{}' end
        || '{"steps": true}';
    this.deaths := 0;
    this.fingerprint := null;
    this.failed_at := null;
    return wait_for_steps(without_assignment(this), awaited.until, awaited.children, is_refused or awaited.is_signalled);
end $$;

-- Returns those of some jobs that wait for a signal which is there. The signal stays until a wait of their next run takes
-- it, by take_signal(): its code may have changed.
create or replace function txqueue.signalled_jobs(ids bigint[]) returns bigint[]
language plpgsql volatile
set enable_seqscan = off
as $$
begin
    return array(
        select distinct step.job_id
          from job_step as step join job_signal as sent on sent.job_id = step.job_id and sent.name = step.signal
         where step.job_id = any (ids) and step.ended_at is null and sent.taken_at is null);
end $$;

-- Returns a job in its state at a wait: waiting, or ready if that has ended already.
create or replace function txqueue.wait_for_steps(this job, until timestamptz, children bigint[], is_ended boolean) returns job
language plpgsql volatile
set enable_seqscan = off
as $$
begin
    this.state := 'ready';
    if is_ended or until <= clock_timestamp() then
        return this;
    end if;
    if children is not null then
        delete from job_parent where child = this.job_id;
        this := hold_for_parents(this, link_parents(this.job_id, children, true));
        if this.state = 'ready' then
            return this;
        end if;
    end if;
    this.state := 'waiting';
    this.waiting_for := case when until is not null then 'time' when children is not null then 'parents' else 'signal' end;
    this.not_before := coalesce(until, this.not_before);
    return this;
end $$;

-- Writes one step of a running job in the caller's transaction, atomically with its writes: raises an error when the
-- token of the run no longer holds, so that a commit in the same message does not happen. A call names the child that
-- was enqueued for it. Searches the given lane first, if any.
create or replace function txqueue.write_step(
    its_incarnation integer, its_assignment bigint, its_job_id bigint, its_name text, its_result jsonb, its_child bigint default null,
    its_lane integer default null)
returns void
language plpgsql volatile security definer
as $$
declare
    is_held boolean;
    ignored text;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform check_isolation('a step does not end');
    end if;
    ignored := set_config('idle_in_transaction_session_timeout', '30s', true);
    case its_lane
        when 0 then is_held := hold_for_step_0(its_incarnation, its_assignment, its_job_id);
        else null;
    end case;
    for search in 1 .. 16 loop
        exit when is_held;
        -- Rotation may have moved it to another lane, or may do so during this search.
        case lane_of_jobs(its_incarnation, its_assignment, array[its_job_id])
            when 0 then is_held := hold_for_step_0(its_incarnation, its_assignment, its_job_id);
            else exit;
        end case;
    end loop;
    if is_held is not true then
        raise exception using errcode = 'TXQ04', message = format('job %s has been assigned elsewhere since', its_job_id),
            hint = 'nothing: it runs there, this run''s writes are gone';
    end if;
    -- Such a job would run again and again, or wait without limit.
    if its_child is not null and awaits_end(its_child, its_job_id) then
        perform refuse(format('job %s would wait for its own end by the call %s, as job %s waits for it', its_job_id, its_name, its_child),
                       'call work that does not have the unique key of this job, and that does not wait for this job');
    end if;
    insert into job_step (job_id, name, kind, result, child, ended_at)
    values (its_job_id, its_name, case when its_child is null then 'step' else 'call' end, its_result, its_child,
            case when its_child is null then clock_timestamp() end);
end $$;

-- Keeps a running job of one lane from being given to another run until the commit, and notes among its options that it
-- has steps; returns whether the token of the run holds. One function per lane, so that its plan is kept.
create or replace function txqueue.hold_for_step_0(its_incarnation integer, its_assignment bigint, its_job_id bigint)
returns boolean
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
begin
    update job_assigned_0 set options = coalesce(options, '{}') || '{"steps": true}'
     where job_id = its_job_id and assignment = its_assignment and incarnation = its_incarnation and (options ? 'steps') is not true;
    if not found then
        perform from job_assigned_0
         where job_id = its_job_id and assignment = its_assignment and incarnation = its_incarnation for key share;
    end if;
    return found;
end $$;

-- Writes steps of running jobs, many with one commit: an array of objects with job_id, assignment, name, kind ('step',
-- 'cursor', 'call', or 'signal' to take a signal that is there), result, error, child_type of a call, signal (the name of that), and
-- is_over if the time to wait for it is over. Each names the token of its run. Returns a pair for each that was not refused, in any
-- order: its place, from 0, and for a signal the text of its value, or null if none is there. It waits for no job that
-- another session has locked: then it writes nothing, so that the caller tries each by itself.
create or replace function txqueue.write_steps(its_incarnation integer, given jsonb, out place integer, out value text)
returns setof record
language plpgsql volatile security definer
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    ids    constant bigint[] := array(select distinct (each ->> 'job_id')::bigint from jsonb_array_elements(given) as each);
    held   bigint[];
    tokens bigint[];
    others bigint[];
    noted  integer := 0;
    said   record;
begin
    -- A run that has lost its job must not write: neither can the job go to another one before this commit.
    for search in 1 .. 16 loop
        select array_agg(job_id), array_agg(assignment) into held, tokens
          from (select job_id, assignment from job_assigned
                 where job_id = any (ids) and incarnation = its_incarnation
                 order by job_id for key share skip locked) as locked;
        -- Rotation may just have moved a job to another lane.
        exit when cardinality(held) = cardinality(ids);
    end loop;
    others := array(select job_id from job_assigned where job_id = any (held) and (options ? 'steps') is not true);
    if others <> '{}' then
        update job_assigned set options = coalesce(options, '{}') || '{"steps": true}'
         where job_id = any (array(select job_id from job_assigned where job_id = any (others) for no key update skip locked));
        get diagnostics noted = row_count;
    end if;
    if noted < cardinality(others) or cardinality(held) is distinct from cardinality(ids) and exists (
            select from job_assigned where job_id = any (ids) and incarnation = its_incarnation and (job_id = any (held)) is not true) then
        raise exception using errcode = 'lock_not_available', message = 'another session has locked a job';
    end if;
    insert into job_step (job_id, name, kind, result, error, child_type, ended_at)
    select job_id, name, kind, result, error, child_type, clock_timestamp()
      from jsonb_to_recordset(given) as each (
               job_id bigint, assignment bigint, name text, kind text, result jsonb, error text, child_type text)
     where ((job_id, assignment) in (select * from unnest(held, tokens))) is true and kind <> 'signal'
        on conflict (job_id, name) do update set result = excluded.result, error = excluded.error, child_type = excluded.child_type, ended_at = excluded.ended_at;
    for said in
        select each.place - 1 as place, job_id, name, kind, signal, is_over
          from rows from (jsonb_to_recordset(given) as (
                   job_id bigint, assignment bigint, name text, kind text, signal text, is_over boolean))
               with ordinality as each (job_id, assignment, name, kind, signal, is_over, place)
         where ((job_id, assignment) in (select * from unnest(held, tokens))) is true
    loop
        place := said.place;
        value := null;
        if said.kind = 'signal' then
            value := take_signal(said.job_id, said.name, said.signal);
            if value is null and said.is_over then
                update job_step set error = 'its time was over', ended_at = clock_timestamp()
                 where job_id = said.job_id and name = said.name and ended_at is null;
            end if;
        end if;
        return next;
    end loop;
end $$;
