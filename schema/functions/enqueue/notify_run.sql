-- Notifies a run of a node of a job that is assigned to it: by its place and, on the node's own channel, by the job itself,
-- if a notification can hold it; the node reads others. Older code listens on another channel, which any role can
-- name, and gets the place only.
--
-- Its settings hide the channel's name: any session may ask for traces of notifications. Nor may the name be a constant of
-- a plan, which any session may print, too. So no other function that such a session calls reads it.
create or replace function txqueue.notify_run(run integer, lane smallint, assignment bigint, chunk text) returns void
language plpgsql volatile
set client_min_messages = warning
set trace_notify = off
as $$
begin
    perform pg_notify(listening.channel, run || ' ' || lane || ' ' || assignment
                                         || case when octet_length(chunk) < 7900 then ' ' || chunk else '' end)
       from txqueue.node_channel as listening where listening.incarnation = run;
    if not found then
        perform pg_notify('txqueue_run_' || run, lane || ' ' || assignment);
    end if;
end $$;
