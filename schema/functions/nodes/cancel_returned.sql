-- Cancels the jobs, all or some, that a request names and that their node, or a dead one, no longer holds. It waits for
-- no lock, as its callers hold others: for a job that is locked, the request is left for the next heartbeat.
create or replace function txqueue.cancel_returned(its_incarnation integer, ids bigint[] default null) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
declare
    gone bigint[];
    whos text[];
begin
    with stale as (
        delete from request where not is_restart and (ids is null or job_id = any (ids))
           and is_stale_cancellation(request, its_incarnation) returning job_id, who
    )
    select array_agg(job_id), array_agg(who) into gone, whos from stale;
    if gone is not null then
        perform cancel_jobs(gone, whos, '{waiting,ready}', false);
    end if;
end $$;
