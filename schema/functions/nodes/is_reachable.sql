-- Whether a node may be given jobs: it is alive, and has renewed its lease itself within a time. Without settings of its
-- own, so that it is inlined.
create or replace function txqueue.is_reachable(node txqueue.node_info, within interval) returns boolean
language sql volatile
as $$ select node.state = 'alive' and node.heartbeat_at > clock_timestamp() - within and node.vouched_at is null $$;
