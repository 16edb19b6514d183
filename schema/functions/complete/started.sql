-- Records that jobs have been running for longer than a beat, with the progress that their handlers reported:
-- a JSON text each, or null.
create or replace function txqueue.started(
    its_incarnation integer, assignments bigint[], ids bigint[], seconds double precision[],
    progress text[] default null)
returns integer
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
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
