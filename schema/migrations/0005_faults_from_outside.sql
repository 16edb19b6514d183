-- For late statements, locks that any login can take, and unexpected input.

-- From here on a migration may declare which older code works with it.
comment on column txqueue.migration.serves is 'The oldest version whose code works with the schema; the step''s own if null.';

-- Urgent jobs of an overdue backlog, for promote().
create index on txqueue.job_waiting (priority, not_before) where waiting_for in ('time', 'rate') and priority > 4;

comment on column txqueue.setting.payload_limit is 'The longest payload, in bytes of its JSON text.';


-- Suspects, which are cleared once the job that kills is found.
create index on txqueue.job_ready (queue) where deaths > 1;

-- txqueue's own locks, as any session can take advisory locks, whatever its rights.
create table txqueue.key_lock (
    key smallint primary key
);
insert into txqueue.key_lock select generate_series(0, 16639);
comment on table txqueue.key_lock is 'Rows for locking: 0 to 16383 for groups, limited queues and tenants, the others for pools.';

create table txqueue.claiming ();
comment on table txqueue.claiming is 'For locking: claims share it, a change of a limit locks it exclusively.';

create table txqueue.duty (
    name text primary key
);
insert into txqueue.duty values ('history'), ('gauge'), ('rotate');
comment on table txqueue.duty is 'Rows that a session locks while it does a duty for all.';

create table txqueue.unfreed (
    "group" text not null
);
comment on table txqueue.unfreed is 'Groups to check again: their parked jobs were locked when they should have become ready.';

-- A publication for all tables refuses deletions from a table without an identity: the queue would stop.
do $$
declare
    leaf regclass;
begin
    for leaf in
        select oid from pg_class where relnamespace = 'txqueue'::regnamespace and relkind in ('r', 'p') and relname not in ('migrating', 'claiming')
           and not exists (select from pg_index where indrelid = pg_class.oid and indisprimary)
    loop
        execute format('alter table %s replica identity full', leaf);
    end loop;
end $$;

-- Nodes come and go, and each heartbeat searches for live and recently ended ones.
create index on txqueue.node_info (incarnation) where state in ('alive', 'draining');
create index on txqueue.node_info (ended_at) where ended_at is not null;
create index on txqueue.node_info (started_at);

-- Schedules that end.
alter table txqueue.schedule add column until timestamptz,
    add column times integer check (times between 1 and 1000000000),
    add column runs bigint not null default 0;

-- Unique keys that are remembered after their jobs have ended.
create table txqueue.seen_key (
    work_type  text collate "C" not null,
    key        text collate "C" not null,
    job_id     bigint not null,
    as_of      timestamptz,
    at         timestamptz not null default now(),
    primary key (work_type, key)
);
comment on table txqueue.seen_key is 'Keys that were enqueued once, or as of a moment. No row is deleted by itself.';
