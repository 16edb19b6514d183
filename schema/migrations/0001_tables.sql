-- The tables of the queue. docs/explanation/schema.md explains their partitions.

create type txqueue.job_state as enum ('waiting', 'ready', 'assigned', 'done', 'failed', 'cancelled');

create sequence txqueue.job_id as bigint;

-- Grows with every chunk of jobs assigned, so that no two assignments share a token.
create sequence txqueue.assignment as bigint;

-- 1 while the last claim of some master found nothing. A sequence, because it changes without leaving a dead
-- row and without waiting for a transaction to end.
create sequence txqueue.asleep as bigint minvalue 0 start 0;

-- The lane for new ready jobs. Sequences too, because every enqueue reads the first and rotation writes both.
create sequence txqueue.lane as smallint minvalue 0 maxvalue 7 start 0;

-- When a lane was last truncated, in milliseconds since 1970.
create sequence txqueue.rotated as bigint minvalue 0 start 0;

create table txqueue.setting (
    only_row         boolean primary key default true check (only_row),
    aging            interval not null default '10 minutes',
    payload_limit    integer  not null default 1048576,
    history_kept     interval not null default '30 days'
);
comment on table txqueue.setting is 'The settings of the whole queue, for all nodes and clients.';
comment on column txqueue.setting.aging is 'The waiting time that weighs as much as one step of priority.';
comment on column txqueue.setting.payload_limit is 'The largest payload, in bytes of jsonb.';
comment on column txqueue.setting.history_kept is 'How long done and cancelled jobs are kept.';
insert into txqueue.setting default values;

create table txqueue.work_type (
    work_type     text collate "C" primary key check (work_type ~ '^[A-Za-z0-9_][A-Za-z0-9_.:<>-]{0,199}$'),
    queue         text collate "C" not null,
    priority      smallint not null check (priority between 0 and 9),
    weight        integer not null check (weight > 0),
    policy        jsonb not null default '{}',
    published_at  timestamptz not null default now()
);
comment on table txqueue.work_type is 'The policies of the work types that nodes have published.';

create table txqueue.node_info (
    node_id       integer generated always as identity primary key,
    name          text not null unique,
    hostname      text not null,
    pid           integer not null,
    port          integer,
    incarnation   integer not null unique,
    started_at    timestamptz not null default now(),
    heartbeat_at  timestamptz not null default now(),
    lease         interval not null,
    state         text not null default 'alive' check (state in ('alive', 'draining', 'stopped', 'dead')),
    load          double precision not null default 0,
    capacity      integer not null,
    queues        text[] not null,
    work_types    text[] not null,
    version       text not null default ''
) with (fillfactor = 50);
create sequence txqueue.incarnation as integer;
comment on table txqueue.node_info is 'One row a node; an incarnation is one run of it.';

create table txqueue.job (
    job_id        bigint not null,
    rank          timestamptz not null,
    not_before    timestamptz not null,
    not_after     timestamptz,
    enqueued_at   timestamptz not null,
    assigned_at   timestamptz,
    started_at    timestamptz,
    finished_at   timestamptz,
    assignment    bigint,
    node_id       integer,
    incarnation   integer,
    weight        integer not null,
    priority      smallint not null,
    attempt       smallint not null default 0,
    deaths        smallint not null default 0,
    lane          smallint not null,
    state         txqueue.job_state not null,
    waiting_for   text collate "C",
    work_type     text collate "C" not null,
    queue         text collate "C" not null,
    "group"       text collate "C",
    options       jsonb,
    payload       jsonb not null,
    error         text,
    result        jsonb
) partition by list (state);
comment on table txqueue.job is 'Every job; the partition it is in is its state.';
comment on column txqueue.job.rank is 'least(not_before - priority * aging, not_after - 9 * aging): smaller goes first.';
comment on column txqueue.job.assignment is 'Grows at every assignment; with the incarnation it is the token that fences writes.';
comment on column txqueue.job.attempt is 'Runs that ended: done, failed, timed out or died.';
comment on column txqueue.job.deaths is 'How many worker processes died while they ran the job.';

create table txqueue.job_waiting   partition of txqueue.job for values in ('waiting');
create table txqueue.job_ready     partition of txqueue.job for values in ('ready') partition by list (lane);
create table txqueue.job_assigned  partition of txqueue.job for values in ('assigned') partition by list (lane);
create table txqueue.job_done      partition of txqueue.job for values in ('done') partition by range (finished_at);
create table txqueue.job_failed    partition of txqueue.job for values in ('failed');
create table txqueue.job_cancelled partition of txqueue.job for values in ('cancelled') partition by range (finished_at);

create index on txqueue.job_waiting (not_before) where waiting_for = 'time';
create index on txqueue.job_waiting ("group", rank, job_id) where waiting_for = 'group';
create index on txqueue.job_waiting (work_type) where waiting_for = 'type';
create index on txqueue.job_waiting (job_id);
create index on txqueue.job_ready (queue, rank, job_id);
create index on txqueue.job_ready (job_id);
create index on txqueue.job_ready ("group", rank, job_id) where "group" is not null;
create index on txqueue.job_assigned (job_id);
create index on txqueue.job_assigned ("group") where "group" is not null;
create index on txqueue.job_done (job_id);
create index on txqueue.job_failed (job_id);
create index on txqueue.job_cancelled (job_id);

do $$
begin
    for lane in 0..7 loop
        execute format('create table txqueue.job_ready_%s partition of txqueue.job_ready for values in (%s)', lane, lane);
        execute format('create table txqueue.job_assigned_%s partition of txqueue.job_assigned for values in (%s)', lane, lane);
    end loop;
end $$;
