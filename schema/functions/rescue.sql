-- Declares nodes dead whose lease is out and gives their jobs back. Returns how many jobs.
create or replace function @schema@.rescue() returns integer
language plpgsql volatile security definer
set search_path = @schema@, pg_temp
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
    return rescued;
end $$;
