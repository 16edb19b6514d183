-- The jobs that a node must cancel: [[assignment, job_id, who], ...], repeated until they have ended. If a
-- job has returned to the queue or has moved to another node, the request follows it; this includes requests
-- for dead nodes.
create or replace function txqueue.find_cancellations(its_incarnation integer) returns jsonb
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
declare
    asked record;
begin
    if not exists (select from request) then
        return '[]';
    end if;
    -- All keys at once in sorted order, not job by job.
    perform lock_groups(array(select job_id from request where is_stale_cancellation(request, its_incarnation)));
    for asked in
        with gone as (
            delete from request where is_stale_cancellation(request, its_incarnation) returning job_id, who
        )
        select who, array_agg(job_id) as ids from gone group by who
    loop
        perform cancel_unstarted(asked.ids, asked.who);
    end loop;
    return (select coalesce(jsonb_agg(jsonb_build_array(assignment, job_id, who)), '[]') from request
             where incarnation = its_incarnation);
end $$;
