-- Declares nodes dead, and returns some thousands of the jobs of each to the queue; rescue() continues.
-- Returns how many.
create or replace function txqueue.mark_dead(incarnations integer[]) returns integer
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    orphaned integer;
    rescued  integer := 0;
begin
    for orphaned in
        update node_info set state = 'dead', ended_at = clock_timestamp()
         where incarnation = any (incarnations) and state in ('alive', 'draining')
        returning incarnation
    loop
        rescued := rescued + release(orphaned, '{}', true, true, at_most => 5000);
    end loop;
    return rescued;
end $$;
