-- The nodes with their current status: whether the lease has expired, even if the node was not declared dead
-- yet, how many jobs each holds, which right it lacks, and what
-- restores that if no grant does.
create or replace view txqueue.node_status as
select node.node_id, node.name, node.hostname, node.pid, node.port, node.incarnation, node.started_at,
       node.heartbeat_at,
       case when node.state in ('alive', 'draining') and node.heartbeat_at < clock_timestamp() - node.lease
            then 'dead' else node.state end as state,
       node.load, node.capacity, coalesce(held.jobs, 0) as jobs, node.queues, node.work_types,
       extract(epoch from node.lease)::double precision as lease, node.version, node.address, node.report,
       lost.what as lacking_right, lost.remedy as right_remedy
  from txqueue.node_info as node
  left join (select incarnation, count(*) as jobs from txqueue.job_assigned group by incarnation) as held
    on held.incarnation = node.incarnation
  -- Once for each role, of which thousands of ended nodes have few.
  left join (select login, role, is_silent, what, remedy
               from (select distinct report ->> 'login' as login, report ->> 'role' as role,
                            heartbeat_at < statement_timestamp() - lease as is_silent
                       from txqueue.node_info where state <> 'stopped') as each,
                    lateral txqueue.lacking_right(jsonb_build_object('login', login, 'role', role), is_silent)) as lost
    on node.state <> 'stopped' and lost.login = node.report ->> 'login' and lost.role = node.report ->> 'role'
   and lost.is_silent = (node.heartbeat_at < statement_timestamp() - node.lease);
comment on view txqueue.node_status is 'The nodes and their current status.';
