-- Takes the unique keys of those of some jobs that have ended in one of some states, in sorted order, for their
-- retry. Keys that other jobs hold stay with those.
create or replace function txqueue.retake_unique_keys(ids bigint[], states job_state[]) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
begin
    insert into unique_job (work_type, key, job_id)
    select work_type, options ->> 'unique', job_id from job
     where job_id = any (ids) and state = any (states) and state in ('failed', 'cancelled')
       and jsonb_typeof(options) = 'object' and options ? 'unique'
     order by work_type, options ->> 'unique', job_id
        on conflict do nothing;
end $$;
