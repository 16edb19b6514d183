-- The number of a queue's jobs that wait, for whatever, or are ready.
create or replace function txqueue.backlog(queue text) returns bigint
language sql stable security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
    select count_backlog(queue, null)
$$;
