-- The jobs that a node must cancel: [[assignment, job_id, who], ...], repeated until they have ended. If a
-- job has returned to the queue or has moved to another node, the request follows it; this includes requests
-- for dead nodes.
create or replace function txqueue.find_cancellations(its_incarnation integer) returns jsonb
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
declare
    ids  bigint[];
    whos text[];
begin
    if not exists (select from request) then
        return '[]';
    end if;
    with gone as (
        delete from request where is_stale_cancellation(request, its_incarnation) returning job_id, who
    )
    select array_agg(job_id), array_agg(who) into ids, whos from gone;
    -- It waits for no lock, as the heartbeat holds others; what is locked is left for the next one.
    if ids is not null then
        perform cancel_jobs(ids, whos, '{waiting,ready}', false);
    end if;
    return (select coalesce(jsonb_agg(jsonb_build_array(assignment, job_id, who)), '[]') from request
             where incarnation = its_incarnation);
end $$;
