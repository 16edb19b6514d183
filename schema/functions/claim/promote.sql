-- Makes due jobs ready, and of a group whose rate allows one more, its first job: at most at_most of them in the order of their due moments, and if some are left,
-- at_most more of those above the default priority, the highest first, so that urgent jobs do not wait behind
-- an overdue backlog. A caller that has promoted up to a moment passes it as since, so that the dead rows
-- before it are not read again; null reads all.
create or replace function txqueue.promote(since timestamptz, at_most integer) returns integer
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    due      tid[];
    paid     tid[];
    promoted integer;
    urgent   integer := 0;
begin
    select array_agg(tid) filter (where waiting_for = 'time'), array_agg(tid) filter (where waiting_for = 'rate') into due, paid
      from (select ctid as tid, waiting_for from job_waiting
             where waiting_for in ('time', 'rate') and not_before <= clock_timestamp() and not_before >= coalesce(since, '-infinity')
             order by not_before limit at_most for update skip locked) as first;
    promoted := coalesce(make_ready(due), 0) + coalesce(end_rate_waits(paid), 0);
    if promoted < at_most then
        return promoted;
    end if;
    for its_priority in reverse 9 .. 5 loop
        select array_agg(tid) filter (where waiting_for = 'time'), array_agg(tid) filter (where waiting_for = 'rate') into due, paid
          from (select ctid as tid, waiting_for from job_waiting
                 where waiting_for in ('time', 'rate') and priority > 4 and priority = its_priority
                   and not_before <= clock_timestamp()
                 order by not_before limit at_most - urgent for update skip locked) as first;
        urgent := urgent + coalesce(make_ready(due), 0) + coalesce(end_rate_waits(paid), 0);
        exit when urgent >= at_most;
    end loop;
    return promoted + urgent;
end $$;
