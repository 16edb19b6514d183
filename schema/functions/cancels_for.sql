-- The jobs that a node is to cancel: [[assignment, job_id, who], ...], again and again until they have
-- ended. If one has gone back to the queue or elsewhere meanwhile, the request follows it, those for
-- nodes that no longer live included.
create or replace function @schema@.cancels_for(its_incarnation integer) returns jsonb
language plpgsql volatile
set search_path = @schema@, pg_temp
set enable_seqscan = off
as $$
declare
    stale record;
begin
    if not exists (select from request) then
        return '[]';
    end if;
    for stale in
        delete from request as gone
         where (incarnation = its_incarnation
                or not exists (select from node_info as node
                                where node.incarnation = gone.incarnation and node.state in ('alive', 'draining')))
           and not exists (select from job_assigned as held
                            where held.job_id = gone.job_id and held.incarnation = gone.incarnation
                              and held.assignment = gone.assignment)
        returning gone.job_id, gone.who
    loop
        perform end_waiting(array[stale.job_id], stale.who);
    end loop;
    return (select coalesce(jsonb_agg(jsonb_build_array(assignment, job_id, who)), '[]') from request
             where incarnation = its_incarnation);
end $$;
