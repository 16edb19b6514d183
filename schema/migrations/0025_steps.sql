-- serves: 7
-- The steps of jobs, which are not done again, and the signals for which jobs wait.

create table txqueue.job_step (
    number   bigint generated always as identity,
    job_id   bigint not null,
    name     text collate "C" not null check (length(name) between 1 and 200),
    kind     text not null check (kind in ('step', 'cursor', 'sleep', 'signal', 'call')),
    result   jsonb,
    error    text,
    signal   text collate "C",
    child    bigint,
    until    timestamptz,
    began_at timestamptz not null default clock_timestamp(),
    ended_at timestamptz,
    primary key (job_id, name)
);
comment on table txqueue.job_step is
    'The steps of jobs that have not ended as done or cancelled: what they returned, and what the jobs wait for.';
comment on column txqueue.job_step.error is 'Why a wait has no result: its time was over, or its child has failed.';
comment on column txqueue.job_step.signal is 'The name of the awaited signal.';
comment on column txqueue.job_step.child is 'The job that was enqueued for this step, for whose end it waits.';
comment on column txqueue.job_step.until is 'When a wait ends by itself.';
comment on column txqueue.job_step.ended_at is 'Null while the job waits.';

create table txqueue.job_signal (
    number   bigint generated always as identity primary key,
    job_id   bigint not null,
    name     text collate "C" not null check (length(name) between 1 and 200),
    key      text collate "C" check (length(key) between 1 and 1000),
    value    jsonb,
    sent_at  timestamptz not null default clock_timestamp(),
    taken_at timestamptz,
    unique (job_id, name, key)
);
comment on table txqueue.job_signal is 'The signals sent to jobs that have not ended.';
comment on column txqueue.job_signal.key is 'A second signal of this key and name is the same one.';
comment on column txqueue.job_signal.taken_at is 'When a step of the job has taken it.';

-- Read by each end of a job that others follow.
create sequence txqueue.has_signals as bigint minvalue 0 start 0;
comment on sequence txqueue.has_signals is '1 once a signal was sent.';

alter table txqueue.job add column steps jsonb;
comment on column txqueue.job.steps is 'The steps of a job that is done or cancelled, in their order.';
