-- The jobs that a node must cancel: [[assignment, job_id, who], ...], repeated until they have ended, and the runs
-- that it must end as their jobs were restarted, repeated for a minute. If a job to cancel has returned to the queue
-- or has moved to another node, the request follows it; this includes requests for dead nodes.
create or replace function txqueue.find_cancellations(its_incarnation integer, out cancels jsonb, out restarts jsonb)
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
begin
    if not exists (select from request) then
        cancels := '[]';
        restarts := '[]';
        return;
    end if;
    -- The job has another run by now, which is not meant.
    delete from request
     where is_restart and at < clock_timestamp() - interval '1 minute' and is_stale_cancellation(request, its_incarnation);
    perform cancel_returned(its_incarnation);
    select coalesce(jsonb_agg(jsonb_build_array(assignment, job_id, who)) filter (where not is_restart), '[]'),
           coalesce(jsonb_agg(jsonb_build_array(assignment, job_id, who)) filter (where is_restart), '[]')
      into cancels, restarts from request where incarnation = its_incarnation;
end $$;
