-- Sends a signal to the job that holds a unique key, as signal() does.
create or replace function txqueue.signal_keyed(
    work_type text, "unique" text, name text, value jsonb default null, key text default null)
returns boolean
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
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
