-- The jobs of a lane that were enqueued as assigned to a node by open credit, in the order of their assignments: those
-- with a number above `after` that are not known to the node. Only credited_jobs() calls it. One function per lane, so
-- that its plan is kept.
create or replace function txqueue.credited_in_0(
    its_incarnation integer, after bigint, known bigint[], out assignments bigint[], out chunks text[])
language plpgsql volatile
as $$
begin
    select array_agg(job.assignment), array_agg(txqueue.chunk_of(txqueue.chunk_entry(
               job.job_id, job.work_type, job.attempt, job.weight, job.payload, coalesce(job.options::text, 'null'))))
      into assignments, chunks
      from txqueue.job_assigned_0 as job
     where job.incarnation = its_incarnation and job.handed = 2 and job.assignment > after
       and job.assignment <> all (known) and job.started_at is null;
end $$;
