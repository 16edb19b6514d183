-- The current kinds of failure, by work type: a thousand of them, each counted up to 10,000 jobs.
create or replace view txqueue.failures as
select kind.fingerprint collate "C" as fingerprint, kind.work_type collate "C" as work_type, kind.failed, kind.waiting,
       kind.first_seen, kind.last_seen, kind.example, kind.error, kind.is_more
  from txqueue.failure_kinds(1000, 10000) as kind;
comment on view txqueue.failures is 'Failed jobs, and jobs that wait for a retry, by the kind of their last error.';
