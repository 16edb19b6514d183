-- The jobs that a node is to cancel: [[assignment, job_id, who], ...], again and again until they have
-- ended. If one has gone back to the queue or elsewhere meanwhile, the request follows it, those for
-- nodes that no longer live included.
create or replace function txqueue.find_cancellations(its_incarnation integer) returns jsonb
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
declare
    followed record;
begin
    if not exists (select from request) then
        return '[]';
    end if;
    -- All keys at once, in the order in which all lock them, and not job by job.
    perform lock_groups(array(select job_id from request where is_stale_cancellation(request, its_incarnation)));
    for followed in
        with gone as (
            delete from request where is_stale_cancellation(request, its_incarnation) returning job_id, who
        )
        select who, array_agg(job_id) as ids from gone group by who
    loop
        perform cancel_unstarted(followed.ids, followed.who);
    end loop;
    return (select coalesce(jsonb_agg(jsonb_build_array(assignment, job_id, who)), '[]') from request
             where incarnation = its_incarnation);
end $$;
