-- serves: 7
-- By which error an attempt failed, and what it had logged before.

alter table txqueue.failed_attempt add column error_class text, add column log text;
comment on column txqueue.failed_attempt.error_class is 'The module and name of its class; null if no error of the handler''s ended the run.';
comment on column txqueue.failed_attempt.log is 'The last entries that the run logged; null for none, and for redacted work.';
