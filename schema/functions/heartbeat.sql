-- Renews a node's lease and rescues the jobs of nodes whose lease is out. Jobs of a known type that
-- were enqueued before it was published, and committed after, are readied here.
--
-- Returns whether this incarnation still owns its name (one that does not must drop its work), the
-- state that it is to be in, the live nodes that it can reach, and the running jobs that it is to
-- cancel, as [[assignment, job_id, who], ...].
create or replace function @schema@.heartbeat(
    its_incarnation integer, its_load double precision, its_report jsonb default '{}',
    out owned boolean, out its_state text, out peers jsonb, out cancels jsonb)
language plpgsql volatile security definer
set search_path = @schema@, pg_temp
as $$
begin
    update node_info set heartbeat_at = clock_timestamp(), load = its_load, report = its_report
     where incarnation = its_incarnation and state in ('alive', 'draining')
    returning state into its_state;
    owned := found;
    perform rescue();
    perform ready_known();
    select coalesce(jsonb_agg(jsonb_build_object(
               'node_id', node_id, 'name', name, 'incarnation', incarnation, 'address', address, 'port', port,
               'state', state, 'capacity', capacity, 'queues', queues, 'work_types', work_types) order by node_id), '[]')
      into peers
      from node_info
     where state in ('alive', 'draining') and address is not null and incarnation <> its_incarnation;
    cancels := cancels_for(its_incarnation);
end $$;
