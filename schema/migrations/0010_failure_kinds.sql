-- serves: 7
-- By these the kinds of failure are found and counted without reading jobs, and the first and last of each found.

create index on txqueue.job_failed (fingerprint, work_type, failed_at) where fingerprint is not null;
create index on txqueue.job_waiting (fingerprint, work_type, failed_at) where fingerprint is not null;
drop index if exists txqueue.job_failed_fingerprint_idx, txqueue.job_waiting_fingerprint_idx;
