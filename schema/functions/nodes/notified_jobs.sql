-- The jobs that were enqueued as assigned to a node by open credit, by the lanes and assignments that
-- notifications have named: for each a chunk, or null for a job that no longer is assigned to this run of the
-- node, has been running for a while, or has reached the node by another message. Each lane has a statement, so
-- that its plan is kept.
create or replace function txqueue.notified_jobs(its_incarnation integer, lanes integer[], assignments bigint[]) returns text[]
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    chunks text[];
begin
    for place in 1 .. cardinality(assignments) loop
        case lanes[place]
            when 0 then chunks[place] := (
                select chunk_of(chunk_entry(job.job_id, job.work_type, job.attempt, job.weight, job.payload, coalesce(job.options::text, 'null')))
                  from job_assigned_0 as job
                 where job.incarnation = its_incarnation and job.assignment = assignments[place] and job.handed = 2
                   and job.started_at is null);
        end case;
    end loop;
    return chunks;
end $$;
