-- Refuses what says how a job with a unique key is enqueued, for a job without one.
create or replace function txqueue.refuse_keyless() returns text
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    perform refuse('unique_mode, as_of and once_for are about a unique key, and the job has none',
                   'pass the key as unique, or declare it on the class');
end $$;
