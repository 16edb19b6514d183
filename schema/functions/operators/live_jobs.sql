-- The numbers of jobs that are not history, failed ones included, and since when the oldest of them could
-- run. A view and not a function, so that the read-only role may use it; history is left out, because
-- counting it would take ever longer.
create or replace view txqueue.live_jobs as
select queue, work_type, state, waiting_for, count(*) as jobs, min(not_before) as oldest
  from txqueue.job
 where state in ('waiting', 'ready', 'assigned', 'failed') and job_id > 0
 group by queue, work_type, state, waiting_for;
comment on view txqueue.live_jobs is 'The numbers of jobs that are not history.';
