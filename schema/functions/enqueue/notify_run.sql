-- Sends a run of a node a job that is assigned to it, by a notification on the node's own channel.
--
-- Its settings hide the channel's name: any session may ask for traces of notifications. Nor may the name be a constant of
-- a plan, which any session may print, too. So no other function that such a session calls reads it.
create or replace function txqueue.notify_run(run integer, lane smallint, assignment bigint, chunk text) returns void
language plpgsql volatile
set client_min_messages = warning
set trace_notify = off
as $$
begin
    perform pg_notify(listening.channel, run || ' ' || lane || ' ' || assignment || ' ' || chunk)
       from txqueue.node_channel as listening where listening.incarnation = run;
end $$;
