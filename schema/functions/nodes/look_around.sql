-- What a heartbeat sees of the queue while some master sleeps: whether no node has any job, in how many seconds a
-- job of these queues is due (0 if one is ready, null if none will ever be), and a schedule whose class the node
-- has, if its class declares it. By this an idle node polls for none of them. Only heartbeat() calls it.
--
-- A claim and a check of schedules read all that is due. This reads only what has become due lately, so as not to
-- read the dead rows before that: it finds what was committed since the heartbeat before.
create or replace function txqueue.look_around(
    its_queues text[], its_types text[], out is_idle boolean, out work_in double precision, out schedule_in double precision)
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
declare
    lately constant timestamptz := clock_timestamp() - interval '10 minutes';
begin
    is_idle := false;
    if not has_sleeping_master() then
        return;
    end if;
    is_idle := not exists (select from job_assigned);
    work_in := case when exists (select from job_ready where queue = any (its_queues)) then 0 else next_due(lately) end;
    schedule_in := least(
        (select 0 from schedule
          where is_active and next_due = '-infinity' and (not is_declared or work_type = any (its_types)) limit 1),
        (select greatest(0, extract(epoch from next_due - clock_timestamp())) from schedule
          where is_active and next_due > lately and next_due < 'infinity' and (not is_declared or work_type = any (its_types))
          order by next_due limit 1),
        (select seconds from schedule where kind = 'cooldown' and is_active and next_due is null order by seconds limit 1));
end $$;
