-- Seconds until the next waiting job is due: at most 0 if one is due now, null if none will ever be due.
create or replace function txqueue.next_due(since timestamptz) returns double precision
language sql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
    select case when isfinite(not_before) then extract(epoch from not_before - clock_timestamp())::double precision end
      from job_waiting
     where waiting_for in ('time', 'rate') and not_before >= coalesce(since, '-infinity')
     order by not_before limit 1
$$;
