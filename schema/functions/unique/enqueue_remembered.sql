-- Enqueues a job with a unique key that is remembered after its end, unless the remembered key shows that it
-- is not needed:
--   with once             if the key was ever enqueued so, or not longer ago than the option once_for, in seconds
-- with the option as_of if the key was enqueued as of that moment or a later one Returns the number of the
-- enqueued or holding job, or of the remembered one if it is not needed.
create or replace function txqueue.enqueue_remembered(this job, its_key text, mode text) returns bigint
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    moment   timestamptz := check_as_of(this.options, mode);
    patience interval := check_once_for(this.options, mode);
    its_id   bigint;
begin
    perform check_unique(its_key, mode);
    insert into seen_key as seen (work_type, key, job_id, as_of) values (this.work_type, its_key, this.job_id, moment)
    on conflict (work_type, key) do update
       set job_id = excluded.job_id, as_of = coalesce(excluded.as_of, seen.as_of), at = excluded.at
     where case mode when 'once' then seen.at < excluded.at - patience else excluded.as_of > coalesce(seen.as_of, '-infinity') end;
    if not found then
        return (select job_id from seen_key where work_type = this.work_type and key = its_key);
    end if;
    its_id := enqueue_unique(this, its_key, case mode when 'once' then 'keep' else mode end);
    if its_id <> this.job_id then
        update seen_key set job_id = its_id where work_type = this.work_type and key = its_key;
    end if;
    return its_id;
end $$;
