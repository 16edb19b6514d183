-- Seconds until the next waiting job is due: at most 0 if one is due now, null if none will ever be due. Only
-- next_job() and its steps call it; their settings pin the plan and the search path.
create or replace function txqueue.next_due(since timestamptz) returns double precision
language plpgsql volatile
as $$
begin
    return (
        select case when isfinite(not_before) then extract(epoch from not_before - clock_timestamp()) end
          from txqueue.job_waiting
         where waiting_for in ('time', 'rate') and not_before >= coalesce(since, '-infinity')
         order by not_before limit 1);
end $$;
