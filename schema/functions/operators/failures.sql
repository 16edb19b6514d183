-- The current kinds of failure, by work type.
create or replace view txqueue.failures as
select kind.fingerprint, kind.work_type, kind.failed, kind.waiting, kind.first_seen, kind.last_seen, kind.example,
       left(split_part(job.error, E'\n', 1), 500) as error
  from (select fingerprint, work_type, count(*) filter (where state = 'failed') as failed,
               count(*) filter (where state = 'waiting') as waiting, min(failed_at) as first_seen,
               max(failed_at) as last_seen, max(job_id) as example
          from txqueue.job
         where state in ('failed', 'waiting') and fingerprint is not null
         group by fingerprint, work_type) as kind
  left join txqueue.job on job.job_id = kind.example and job.state in ('failed', 'waiting');
comment on view txqueue.failures is 'Failed jobs, and jobs that wait for a retry, by the kind of their last error.';
