-- What trials from outside showed: statements that arrive late, locks anybody can take, input nobody expected.

-- Urgent jobs of an overdue backlog, for promote().
create index on @schema@.job_waiting (priority, not_before) where waiting_for in ('time', 'rate') and priority > 4;

comment on column @schema@.setting.payload_limit is 'Longest payload accepted, in bytes of its JSON text.';


-- Suspects, which are lifted once the job that kills is found.
create index on @schema@.job_ready (queue) where deaths > 1;
