-- Renews a node's lease and rescues the jobs of nodes whose lease is out. Returns whether this
-- incarnation still owns its name; one that does not must drop its work. Jobs of a known type that
-- were enqueued before it was published, and committed after, are readied here.
create or replace function @schema@.heartbeat(its_incarnation integer, its_load double precision) returns boolean
language plpgsql volatile security definer
set search_path = @schema@, pg_temp
as $$
declare
    owned boolean;
begin
    update node_info set heartbeat_at = clock_timestamp(), load = its_load
     where incarnation = its_incarnation and state in ('alive', 'draining');
    owned := found;
    perform rescue();
    perform ready_known();
    return owned;
end $$;
