-- serves: 7
-- Requests to end a run so that its job starts again, and the runs that ended so.

alter table txqueue.request add column is_restart boolean not null default false;
comment on table txqueue.request is
    'Requests to cancel assigned jobs, each until the job has ended, and to end runs whose jobs were restarted.';
comment on column txqueue.request.is_restart is 'Whether only the run is to end, and the job starts again.';

alter table txqueue.failed_attempt add column restarted_by text;
comment on column txqueue.failed_attempt.restarted_by is
    'The operator that ended the run so that the job starts again; null for an attempt that failed.';
