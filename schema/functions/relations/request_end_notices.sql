-- Makes nodes notify the ends of jobs on the channel txqueue_ended for some seconds; a waiting client renews
-- this in time. Limited in time, because NOTIFY takes a lock of the whole server at commit.
create or replace function txqueue.request_end_notices(seconds integer default 10) returns void
language sql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
    select setval('awaited', least(greatest(seconds, 1), 60) + ceil(extract(epoch from clock_timestamp()))::bigint)
$$;
