-- Notes that jobs have run for longer than a beat, so that everyone sees since when.
create or replace function @schema@.started(
    its_incarnation integer, assignments bigint[], ids bigint[], seconds double precision[])
returns integer
language plpgsql volatile security definer
set search_path = @schema@, pg_temp
set enable_seqscan = off
as $$
declare
    noted integer;
begin
    update job_assigned as job set started_at = clock_timestamp() - make_interval(secs => ran.seconds)
      from unnest(assignments, ids, seconds) as ran (assignment, job_id, seconds)
     where job.job_id = ran.job_id and job.assignment = ran.assignment
       and job.incarnation = its_incarnation and job.started_at is null;
    get diagnostics noted = row_count;
    return noted;
end $$;
