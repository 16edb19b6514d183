-- Relations of jobs: unique keys, parents, batches, schedules and sets of items.

alter table txqueue.job add column followed smallint;
comment on column txqueue.job.followed is 'Not null if its end affects followers: see follow().';

alter table txqueue.node_info add column ended_at timestamptz;
comment on column txqueue.node_info.ended_at is 'When it was declared dead or was stopped; its claim may still commit.';

-- History that is archived before it is dropped, and failures by kind.

alter table txqueue.setting add column archive text
    check (archive ~ '^(/|s3://[^/@]+)' and archive !~ '^s3://[^/]*@');
comment on column txqueue.setting.archive is 'Where days of history are archived before they are dropped: a folder or s3://bucket/prefix.';

create table txqueue.archived (
    leaf          text primary key,
    state         txqueue.job_state not null,
    day           date not null,
    attempt       integer not null default 1,
    location      text,
    jobs          bigint,
    checksum      text,
    verified_at   timestamptz,
    dropped_at    timestamptz
);
create index on txqueue.archived (day);
comment on table txqueue.archived is 'The days of history that have been archived, or are being archived.';
comment on column txqueue.archived.attempt is 'Grows with every attempt and every change of the day: an older attempt no longer counts.';

create table txqueue.history_day (
    leaf     text primary key,
    lowest   bigint,
    highest  bigint
);
comment on table txqueue.history_day is 'Which numbers the jobs of a past day have, so that one is found without a search of all days.';

alter table txqueue.job add column fingerprint text collate "C";
alter table txqueue.job add column failed_at timestamptz;
comment on column txqueue.job.fingerprint is 'The fingerprint of its last error; for failed jobs and jobs that wait for a retry.';
comment on column txqueue.job.failed_at is 'When the last attempt failed.';
create index on txqueue.job_failed (fingerprint) where fingerprint is not null;
create index on txqueue.job_waiting (fingerprint) where fingerprint is not null;

-- Pools: large sets that a few jobs work through, and the attempts of single jobs.
create table txqueue.pool (
    pool_id     integer generated always as identity primary key,
    name        text collate "C" not null unique check (name ~ '^[a-z][a-z0-9_]{0,49}$'),
    work_type   text collate "C" not null,
    source      text,
    job         jsonb not null,
    size        smallint not null check (size between 1 and 1000),
    batch       integer not null check (batch between 1 and 100000),
    bound       bigint check (bound > 0),
    is_started  boolean not null default false,
    is_cut      boolean not null default true,
    cut_to      text,
    expected    bigint not null default 0,
    done        bigint not null default 0,
    failed      bigint not null default 0
);
comment on table txqueue.pool is 'The sets: each has a table of its own, pool_<name>, or is an application''s table.';
comment on column txqueue.pool.source is 'The application''s table; null if the items are in a table of its own.';
comment on column txqueue.pool.job is 'What each of its jobs is enqueued as.';
comment on column txqueue.pool.cut_to is 'The last key of the application''s table that is in a part.';
comment on column txqueue.pool.done is 'Items counted by jobs that have ended; see pool_slot.';

create table txqueue.pool_slot (
    job_id   bigint primary key,
    pool_id  integer not null,
    done     bigint not null default 0,
    failed   bigint not null default 0
) with (fillfactor = 50);
comment on table txqueue.pool_slot is 'The jobs of the pools, at most size of each, with what each has counted.';

create table txqueue.pool_part (
    part_id     bigint generated always as identity primary key,
    pool_id     integer not null,
    origin      bigint not null,
    first       text,
    last        text,
    keys        text[],
    items       integer not null check (items > 0),
    attempt     smallint not null default 0,
    taken       smallint not null default 0,
    not_before  timestamptz not null default clock_timestamp(),
    job_id      bigint
);
create index on txqueue.pool_part (pool_id, not_before, part_id) where job_id is null;
create index on txqueue.pool_part (pool_id, job_id) where job_id is not null;
comment on table txqueue.pool_part is 'What is still to be done, a row for a batch of items; one that is done is deleted.';
comment on column txqueue.pool_part.origin is 'The part in which the items were added, as in their own table.';
comment on column txqueue.pool_part.keys is 'The keys, of origin or of the application''s table; null for all from first to last.';

create table txqueue.pool_failed (
    pool_id  integer not null,
    origin   bigint not null,
    key      text not null,
    attempt  smallint not null,
    error    text not null,
    at       timestamptz not null default clock_timestamp(),
    primary key (pool_id, origin, key)
);
comment on table txqueue.pool_failed is 'Items that have spent their attempts, kept until an operator acts.';

create table txqueue.failed_attempt (
    job_id   bigint not null,
    attempt  smallint not null,
    at       timestamptz not null default clock_timestamp(),
    began    timestamptz,
    node_id  integer,
    error    text
) partition by range (at);
create index on txqueue.failed_attempt (job_id);
comment on table txqueue.failed_attempt is 'The failed attempts of jobs, kept as long as history.';
comment on column txqueue.failed_attempt.began is 'When the run was first reported, or else when the job was assigned.';

alter table txqueue.job add column progress jsonb;
comment on column txqueue.job.progress is 'The last progress that its handler reported: [done, total, note].';

-- Until when clients wait for jobs to end, in seconds since 1970; a sequence, because every completion reads
-- it.
create sequence txqueue.awaited as bigint minvalue 0 start 0;

-- Unique keys, and jobs that wait for others.

create table txqueue.unique_job (
    work_type  text collate "C" not null,
    key        text collate "C" not null check (length(key) between 1 and 1000),
    job_id     bigint not null,
    next_id    bigint,
    primary key (work_type, key)
);
create index on txqueue.unique_job (job_id);
create index on txqueue.unique_job (next_id) where next_id is not null;
comment on table txqueue.unique_job is 'The holder of a unique key, and the job that follows it.';

create table txqueue.job_parent (
    child    bigint not null,
    parent   bigint not null,
    any_end  boolean not null,
    ended    text collate "C",
    primary key (parent, child)
);
create index on txqueue.job_parent (child, parent) where ended is null;
create index on txqueue.job_parent (child);
comment on table txqueue.job_parent is 'Children and their parents; the rows of a child are deleted when it no longer waits.';

create table txqueue.unfollowed (
    job_id  bigint not null
);
comment on table txqueue.unfollowed is
    'Jobs to check again: an open transaction had locked them or their keys when they ended.';

-- 1 once a job is unfollowed; a sequence, because every claim reads it.
create sequence txqueue.has_unfollowed as bigint minvalue 0 start 0;

-- Schedules of recurring work.
create table txqueue.schedule (
    schedule_id       bigint generated always as identity primary key,
    name              text collate "C" not null unique check (length(name) between 1 and 200),
    kind              text not null check (kind in ('cron', 'every', 'cooldown')),
    expression        text check ((kind = 'cron') = (expression is not null)),
    zone              text check ((kind = 'cron') = (zone is not null)),
    seconds           double precision check ((kind = 'cron') = (seconds is null)) check (seconds between 1 and 366 * 86400),
    jitter            double precision not null default 0 check (jitter between 0 and 366 * 86400),
    catch_up          text not null default 'skip' check (catch_up in ('skip', 'one', 'all')),
    job               jsonb not null,
    work_type         text collate "C" not null generated always as (job ->> 'work_type') stored,
    "group"           text collate "C" generated always as (job ->> 'group') stored,
    tenant            text collate "C" generated always as (job ->> 'tenant') stored,
    condition_table   text,
    condition_column  text check ((condition_table is null) = (condition_column is null)),
    condition_value   text,
    is_declared       boolean not null default false,
    is_active         boolean not null default true,
    next_due          timestamptz default '-infinity',
    last_due          timestamptz,
    last_job          bigint,
    recent            bigint[] not null default '{}',
    dues              timestamptz[] not null default '{}',
    error             text
);
create index on txqueue.schedule (next_due) where is_active;
create index on txqueue.schedule (seconds) where kind = 'cooldown' and is_active and next_due is null;
create index on txqueue.schedule (last_job) where kind = 'cooldown';
comment on table txqueue.schedule is 'Work that comes again: when, and what is enqueued then.';
comment on column txqueue.schedule.job is 'What is enqueued: an element of what enqueue_many() takes.';
comment on column txqueue.schedule.next_due is 'When it is due; -infinity until a node has computed it, null while the job of a cool-down has not ended.';
comment on column txqueue.schedule.recent is 'Its last twenty jobs, the latest first; dues has the moments they were for.';
