-- Sends a signal to a job that has not ended, in the caller's transaction. The first step of the job that waits for a
-- signal of this name takes it, now or later. Returns whether it is new: a second one of the same name and key is not.
--
-- The row of the job is not locked, as the caller's transaction may take long: propagate_late_ends() lets the job go
-- on once the signal is committed.
create or replace function txqueue.signal(job_id bigint, name text, value jsonb default null, key text default null)
returns boolean
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
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
