-- The numbers of jobs that are not history, failed ones included, and since when the oldest of them could
-- run. A view and not a function, so that the read-only role may use it; history is left out, because
-- counting it would take ever longer. Jobs wait for what people wait for: for a signal, also if that has a time limit,
-- and for the end of a pause. They are counted apart and subtracted, so that the jobs of all other reasons are only counted.
create or replace view txqueue.live_jobs as
with counted as (
    select queue, work_type, state, waiting_for, count(*) as jobs, min(not_before) as oldest
      from txqueue.job
     where state in ('waiting', 'ready', 'assigned', 'failed') and job_id > 0
     group by queue, work_type, state, waiting_for
), known as (
    select queue, work_type, waiting_for as given, 'signal' as waiting_for, count(*) as jobs, min(not_before) as oldest
      from txqueue.job_waiting as job
     where waiting_for = 'time' and fingerprint is null and job_id > 0
       and exists (select from txqueue.job_step as step
                    where step.job_id = job.job_id and step.kind = 'signal' and step.ended_at is null)
     group by 1, 2, 3
     union all
    select queue, work_type, waiting_for, 'pause', count(*), min(not_before)
      from txqueue.job_waiting
     where waiting_for = 'group' and "group" in (select key from txqueue.control where kind = 'group' and is_paused) and job_id > 0
     group by 1, 2, 3
)
select queue, work_type, state, waiting_for, sum(jobs)::bigint as jobs, min(oldest) as oldest
  from (select * from counted
         union all
        select queue, work_type, 'waiting', given, -jobs, null from known
         union all
        select queue, work_type, 'waiting', waiting_for, jobs, oldest from known) as each
 group by queue, work_type, state, waiting_for
having sum(jobs) > 0;
comment on view txqueue.live_jobs is 'The numbers of jobs that are not history.';
