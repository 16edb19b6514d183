-- Signals to jobs with steps: what programs call comes first, then its steps and what they use.

-- Sends a signal for an operator, as signal() does, and records the act.
create or replace function txqueue.send_signal(
    its_job_id bigint, its_name text, its_value jsonb, its_key text, who text, out is_new boolean)
language plpgsql volatile security definer
as $$
begin
    is_new := signal(its_job_id, its_name, its_value, its_key);
    if is_new then
        -- Without the value, which may be secret.
        perform note_action(who, 'signal', format_job_ids(array[its_job_id]),
                            jsonb_build_object('jobs', array[its_job_id], 'name', its_name));
    end if;
end $$;

-- Sends a signal to a job that has not ended, in the caller's transaction. The first step of the job that waits for a
-- signal of this name takes it, now or later. Returns whether it is new: a second one of the same name and key is not.
--
-- The row of the job is not locked, as the caller's transaction may take long: propagate_late_ends() lets the job go
-- on once the signal is committed.
create or replace function txqueue.signal(job_id bigint, name text, value jsonb default null, key text default null)
returns boolean
language plpgsql volatile security definer
set enable_seqscan = off
as $$
#variable_conflict use_variable
declare
    its_type text;
begin
    if (length(name) between 1 and 200) is not true or (length(key) between 1 and 1000) is false then
        perform refuse('a signal has a name of 1 to 200 characters, and a key of at most 1,000', 'give it a shorter one');
    end if;
    select waiting.work_type into its_type from job_waiting as waiting where waiting.job_id = job_id;
    if not found then
        select live.work_type into its_type from job as live where live.job_id = job_id and live.state in ('waiting', 'ready', 'assigned');
        if not found then
            perform refuse_signal(job_id, name);
        end if;
    end if;
    if value is not null then
        if octet_length(value::text) > (select payload_limit from setting) then
            perform refuse(format('the value of the signal %s has more bytes of JSON than the limit of payloads', name),
                           'store large data elsewhere and send its key');
        end if;
        -- The job tells whether it is encrypted.
        if value <> 'null' and not is_sealed(value)
           and (select kind.policy ? 'encrypted' from work_type as kind where kind.work_type = its_type) is not false
           and encrypted_type(job_id, name) is not null then
            perform refuse(format('signals to jobs of %s are encrypted, and the value of %s is in clear', its_type, name),
                           'send it where TXQUEUE_PAYLOAD_KEY is set: by a Python client, or through a node that has the key');
        end if;
    end if;
    if key is null then
        -- One statement, and none to look for a key: each costs a tenth of all this.
        with sent as (
            insert into job_signal (job_id, name, value) values (job_id, name, value)
        )
        insert into late_end values (job_id);
    else
        insert into job_signal (job_id, name, value, key) values (job_id, name, value, key)
            on conflict on constraint job_signal_job_id_name_key_key do nothing;
        if not found then
            return false;
        end if;
        insert into late_end values (job_id);
    end if;
    -- Conditions without a query, as a statement may send a hundred thousand signals.
    if not has_signals() then
        perform setval('has_signals', 1);
    end if;
    if coalesce(pg_sequence_last_value('has_late_ends'), 0) = 0 then
        perform setval('has_late_ends', 1);
    end if;
    if has_sleeping_master() then
        perform wake_masters();
    end if;
    return true;
end $$;
comment on function txqueue.signal(bigint, text, jsonb, text) is 'Send a signal to a job, in the caller''s transaction.';

-- Refuses a signal to a job that has ended or does not exist.
create or replace function txqueue.refuse_signal(its_job_id bigint, name text) returns void
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    ended text := (select state::text from job where job_id = its_job_id and state in ('done', 'failed', 'cancelled') limit 1);
begin
    if ended is not null then
        perform refuse(
            format('job %s takes no signal %s: %s', its_job_id, name, case ended when 'done' then 'it is done' when 'failed' then 'it has failed' else 'it was cancelled' end),
            case ended when 'done' then 'nothing: it waits no more' else 'retry the job first; it then waits again' end);
    end if;
    perform refuse(format('there is no job %s that could take the signal %s', its_job_id, coalesce(name, 'null')),
                   'check the number; enqueue the job first, and commit that or use the same transaction');
end $$;

-- Whether a value has the form that encryption by a client makes.
create or replace function txqueue.is_sealed(value jsonb) returns boolean
language sql immutable  -- inlined
as $$
    select case when jsonb_typeof(value) = 'object'
                then jsonb_typeof(value -> 'encrypted') is not distinct from 'string' and value - 'encrypted' = '{}' else false end
$$;

-- Returns the work type of a job if it is encrypted, as its payload tells, so that a client can encrypt a signal; null
-- otherwise. Refuses as signal() does, before the value is sent.
create or replace function txqueue.encrypted_type(job_id bigint, name text) returns text
language plpgsql stable security definer
set enable_seqscan = off
as $$
#variable_conflict use_variable
declare
    its_type text;
    is_secret boolean;
begin
    select live.work_type, kind.policy ? 'encrypted' is not false and is_sealed(live.payload) into its_type, is_secret
      from job as live left join work_type as kind on kind.work_type = live.work_type
     where live.job_id = job_id and live.state in ('waiting', 'ready', 'assigned');
    if not found then
        perform refuse_signal(job_id, name);
    end if;
    return case when is_secret then its_type end;
end $$;
comment on function txqueue.encrypted_type(bigint, text) is 'The work type of a job whose signals must be encrypted, or null.';

-- Whether a signal was ever sent.
create or replace function txqueue.has_signals() returns boolean
language sql volatile  -- inlined
as $$ select coalesce(pg_sequence_last_value('txqueue.has_signals'), 0) = 1 $$;

-- Sends a signal to the job that holds a unique key, as signal() does.
create or replace function txqueue.signal_keyed(
    work_type text, "unique" text, name text, value jsonb default null, key text default null)
returns boolean
language plpgsql volatile security definer
as $$
#variable_conflict use_variable
declare
    holder bigint := (select held.job_id from unique_job as held where held.work_type = work_type and held.key = "unique");
begin
    if holder is null then
        perform refuse(format('no job of %s that has not ended holds the unique key %s', work_type, left("unique", 100)),
                       'enqueue one with that key first, or name the job by its number');
    end if;
    return signal(holder, name, value, key);
end $$;
comment on function txqueue.signal_keyed(text, text, text, jsonb, text) is
    'Send a signal to the job that holds a unique key, in the caller''s transaction.';

-- Makes those of some jobs ready that wait for a signal which is there, except those that another transaction has
-- locked, for propagate_late_ends(). Returns which.
create or replace function txqueue.resume_signalled(ids bigint[]) returns bigint[]
language plpgsql volatile
set enable_seqscan = off
set plan_cache_mode = force_custom_plan
as $$
declare
    to_lane smallint := current_lane();
    waiting bigint[];
    places  tid[];
    resumed bigint[];
begin
    select array_agg(job_id), array_agg(ctid) into waiting, places
      from (select job_id, ctid from job_waiting
             where job_id = any (ids) and waiting_for in ('signal', 'time', 'parents') and options ? 'steps'
               -- Not one that waits for a retry, whose run will take the signal.
               and fingerprint is null
               for update skip locked) as locked;
    if waiting is null then
        return '{}';
    end if;
    resumed := signalled_jobs(waiting);
    with gone as (
        delete from job_waiting where ctid = any (places) and (job_id = any (resumed)) is true returning *
    )
    insert into job_ready (job_id, rank, not_before, not_after, enqueued_at, weight, priority, attempt, deaths,
                           lane, state, work_type, queue, "group", tenant, options, payload, error, followed, progress)
    select job_id, rank, least(not_before, clock_timestamp()), not_after, enqueued_at, weight, priority, attempt, deaths,
           to_lane, 'ready', work_type, queue, "group", tenant, options, payload, error, mark_followed(job_id, followed), progress
      from gone;
    return resumed;
end $$;

-- Ends a step of a running job with the oldest signal of a name, and returns its value as text; null if there is none.
create or replace function txqueue.take_signal(its_job_id bigint, its_name text, its_signal text) returns text
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    taken jsonb;
begin
    with oldest as (
        select ctid as place, key, value from job_signal
         where job_id = its_job_id and name = its_signal and taken_at is null
         order by number limit 1
    ), gone as (
        delete from job_signal as sent using oldest where sent.ctid = oldest.place and oldest.key is null
    ), used as (
        -- It stays, so that a repeated key changes nothing.
        update job_signal as sent set taken_at = clock_timestamp(), taken_by = its_name from oldest where sent.ctid = oldest.place and oldest.key is not null
    )
    select coalesce(value, 'null') into taken from oldest;
    if found then
        insert into job_step (job_id, name, kind, result, signal, ended_at)
        values (its_job_id, its_name, 'signal', taken, its_signal, clock_timestamp())
            on conflict (job_id, name) do update set result = excluded.result, ended_at = excluded.ended_at;
    end if;
    return taken::text;
end $$;
