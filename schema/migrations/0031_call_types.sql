-- serves: 7
-- A kept result of a call is read by the work type that the called job had at its end.

alter table txqueue.job_step add column child_type text;
comment on column txqueue.job_step.child_type is 'The work type of an ended child, by which its result is read.';
