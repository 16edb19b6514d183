-- Notifies a run of a node of a job that is assigned to it: by its place and, on the node's own channel, by the job itself,
-- if a notification can hold it; the node reads others. Older code listens on another channel, which any role can
-- name, and gets the place only. Without settings of its own, so that it is inlined.
create or replace function txqueue.notify_run(run integer, channel text, lane smallint, assignment bigint, chunk text) returns void
language sql volatile
as $$
    select case when channel is null then pg_notify('txqueue_run_' || run, lane || ' ' || assignment)
                else pg_notify(channel, run || ' ' || lane || ' ' || assignment
                                        || case when octet_length(chunk) < 7900 then ' ' || chunk else '' end) end
$$;
