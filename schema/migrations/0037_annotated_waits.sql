-- serves: 7
-- A wait tells operators which value its signal needs.

alter table txqueue.job_step add column annotation text;
comment on column txqueue.job_step.annotation is 'The type of the value that a wait takes, if its code says so.';
