-- Notifies a run of a node on its own channel, by which the node tests that notifications arrive.
create or replace function txqueue.probe_run(its_incarnation integer) returns void
language sql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$ select pg_notify(channel, 'probe') from node_channel where incarnation = its_incarnation $$;
