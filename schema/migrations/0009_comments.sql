-- serves: 7
-- Comments that the catalogue lacks, and one that names a former function.

comment on table txqueue.migration is 'The migrations that have been applied.';
comment on type txqueue.job_state is 'The states of a job; each is a partition of job.';
comment on column txqueue.job.followed is 'Not null if its end affects other jobs or a schedule: see propagate_ends().';

comment on sequence txqueue.job_id is 'The numbers of jobs.';
comment on sequence txqueue.assignment is 'The numbers of assignments: no two chunks of jobs share a fencing token.';
comment on sequence txqueue.incarnation is 'The numbers of the runs of nodes.';
comment on sequence txqueue.lane is 'The lane for new ready jobs.';
comment on sequence txqueue.rotated is 'When a lane was last truncated, in milliseconds since 1970.';
comment on sequence txqueue.asleep is '1 while some master sleeps until a wake-up.';
comment on sequence txqueue.awaited is 'Until when clients wait for jobs to end, in seconds since 1970.';
comment on sequence txqueue.has_tenants is '1 once a job with a tenant was enqueued.';
comment on sequence txqueue.has_late_ends is '1 while late_end may have rows.';
