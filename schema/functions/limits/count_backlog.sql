-- The number of a queue's jobs that wait, for whatever, or are ready, up to a maximum; null for none.
create or replace function txqueue.count_backlog(its_queue text, most bigint) returns bigint
language sql stable
set search_path = txqueue, pg_temp
set jit = off
set enable_seqscan = off
as $$
    -- Each index of the ready jobs covers one of the two kinds; that of the waiting ones is made with the first limit.
    select count(*) from (
        (select from job_ready where queue = its_queue and tenant is null limit most)
        union all
        (select from job_ready where queue = its_queue and tenant is not null limit most)
        union all
        (select from job_waiting where queue = its_queue limit most)
        limit most) as counted
$$;
