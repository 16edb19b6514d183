-- serves: 7
-- A signal that a step has taken is taken again once that step begins anew.

alter table txqueue.job_signal add column taken_by text collate "C";
comment on column txqueue.job_signal.taken_by is 'The step that has taken it.';
