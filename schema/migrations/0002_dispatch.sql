-- For dispatch: connected nodes, jobs handed over by message, tenants, limits, pauses.

alter table txqueue.setting add column identity uuid not null default gen_random_uuid();
comment on column txqueue.setting.identity is 'The identity of this queue, which a client and a node compare.';

alter table txqueue.node_info add column address text;
alter table txqueue.node_info add column report jsonb not null default '{}';
comment on column txqueue.node_info.address is 'Where peers connect to it, with the port; null if it listens for none.';
comment on column txqueue.node_info.report is 'Its report at the last heartbeat: lag, memory, workers.';

alter table txqueue.job add column tenant text collate "C";
alter table txqueue.job add column handed smallint;
alter table txqueue.job add column counted smallint;
comment on column txqueue.job.tenant is 'Its tenant; the tenants of a queue take turns by their shares.';
comment on column txqueue.job.handed is 'Not null if a message, which may be lost, delivers it to its node.';
comment on column txqueue.job.counted is 'Not null while it runs under a limit of its queue.';

drop index txqueue.job_ready_queue_rank_job_id_idx;
create index on txqueue.job_ready (queue, rank, job_id) where tenant is null;
create index on txqueue.job_ready (queue, tenant, rank, job_id) where tenant is not null;
create index on txqueue.job_ready (queue, rank, job_id) where priority >= 7;
create index on txqueue.job_assigned (incarnation, assignment) where handed is not null;
create index on txqueue.job_assigned (queue) where counted is not null;
create index on txqueue.job_assigned (tenant) where tenant is not null;

drop index txqueue.job_waiting_not_before_idx;
create index on txqueue.job_waiting (not_before) where waiting_for in ('time', 'rate');

drop index txqueue.job_waiting_group_rank_job_id_idx;
create index on txqueue.job_waiting ("group", rank, job_id) where waiting_for in ('group', 'rate');

-- 1 once a job with a tenant was enqueued; a sequence, because every enqueue reads it.
create sequence txqueue.has_tenants as bigint minvalue 0 start 0;

create table txqueue.control (
    control_id   integer generated always as identity unique,
    kind         text not null check (kind in ('queue', 'group', 'tenant')),
    key          text collate "C" not null check (length(key) between 1 and 1000),
    is_paused    boolean not null default false,
    concurrency  integer check (concurrency > 0),
    rate         double precision check (rate > 0 and rate <= 1e6),
    burst        integer not null default 1 check (burst between 1 and 1000000),
    share        double precision not null default 1 check (share > 0 and share <= 1e6),
    reserve      double precision not null default 0 check (reserve >= 0 and reserve < 1),
    primary key (kind, key)
);
comment on table txqueue.control is 'Pauses and limits of queues, groups and tenants.';
comment on column txqueue.control.rate is 'Jobs taken a second; what is left of burst is kept in the sequence bucket_<control_id>.';
comment on column txqueue.control.reserve is 'The part of a node''s capacity that only priorities from 7 may take from this queue.';

create table txqueue.action (
    action_id  bigint generated always as identity primary key,
    at         timestamptz not null default clock_timestamp(),
    who        text not null,
    what       text not null,
    subject    text not null,
    detail     jsonb not null default '{}'
);
comment on table txqueue.action is 'A row for every act of an operator.';

create table txqueue.request (
    incarnation  integer not null,
    job_id       bigint not null,
    assignment   bigint not null,
    who          text not null,
    at           timestamptz not null default clock_timestamp(),
    primary key (incarnation, job_id, assignment)
);
create index on txqueue.action (subject, action_id);
create index on txqueue.action using gin ((detail -> 'jobs') jsonb_path_ops);
comment on table txqueue.request is 'Requests to cancel assigned jobs, each until the job has ended.';
