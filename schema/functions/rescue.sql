-- Declares nodes dead whose lease is out and gives their jobs back, and what was handed since to
-- nodes that no longer live: a transaction may commit such a job late. Returns how many jobs.
create or replace function @schema@.rescue() returns integer
language plpgsql volatile security definer
set search_path = @schema@, pg_temp
set enable_seqscan = off
as $$
declare
    orphaned integer;
    rescued  integer := 0;
begin
    for orphaned in
        update node_info set state = 'dead'
         where node_id in (select node_id from node_info
                            where state in ('alive', 'draining') and heartbeat_at < clock_timestamp() - lease
                              for update skip locked)
        returning incarnation
    loop
        rescued := rescued + release(orphaned, '{}', true, true);
    end loop;
    for orphaned in
        select distinct job.incarnation from job_assigned as job
         where job.handed is not null and not exists (
            select from node_info as node
             where node.incarnation = job.incarnation and node.state in ('alive', 'draining'))
    loop
        rescued := rescued + release(orphaned, '{}', false, true);
    end loop;
    return rescued;
end $$;
