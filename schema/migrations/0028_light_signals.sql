-- serves: 7
-- Signals and steps are written with less.

-- PostgreSQL parses each check from its text again in every execution of an insert: a quarter of the time of signal().
-- The functions that write these tables check the same.
alter table txqueue.job_step drop constraint job_step_name_check, drop constraint job_step_kind_check;
alter table txqueue.job_signal drop constraint job_signal_name_check, drop constraint job_signal_key_check;
alter table txqueue.unique_job drop constraint unique_job_key_check;

-- Signals are found by their job, by the other index.
alter table txqueue.job_signal drop constraint job_signal_pkey, replica identity full;
comment on column txqueue.job_signal.taken_at is 'When a step of the job has taken it. One without a key is deleted then.';
