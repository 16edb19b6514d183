-- The schema txqueue, version 37, to be read; `txqueue migrate --sql` prints the script to run.
-- Generated from the catalogue of a migrated database by: python -m tests.db.snapshot
-- N is a lane, 0 to 7. Not shown: the partitions of single days, the tables of single worksets, and
-- the sequences of single limits. Definitions of functions and views are in schema/functions.

-- Types ---------------------------------------------------------------------------------------------------------------

-- The states of a job; each is a partition of job.
create type job_state as enum ('waiting', 'ready', 'assigned', 'done', 'failed', 'cancelled');

-- A turn of a claim: the jobs of a tenant, up to a part of the room; without a tenant, the jobs of no tenant, or those
-- that may use a reserve.
create type claim_turn as (tenant text, part integer, is_reserve boolean);

-- The first ready job of a lane and queue, and the rank and number at which the turn of another one begins.
create type ready_head as (lane smallint, queue text, rank timestamptz, job_id bigint, until_rank timestamptz,
    until_job bigint);

-- The limits of a queue in one claim: the number of jobs (null for any number), the weight that stays free for priority
-- 7 and higher, whether its jobs are counted, how many were taken.
create type open_queue as (queue text, jobs integer, kept integer, is_counted boolean, taken integer);

-- How many jobs of a group may run, and where its jobs begin; see group_slots().
create type group_slot as (name text, slots integer, paid_in double precision, rank timestamptz, job_id bigint,
    ready_rank timestamptz, ready_job bigint, assignment bigint, looked_at timestamptz, place tid, is_stale boolean,
    oldest_rank timestamptz, oldest_job bigint, holders bigint[]);

-- What a claim may look at: the room of the node and its capacity, the limits of its queues, the turns of its jobs, and
-- what can become free.
create type opened_claim as (room integer, capacity integer, is_limited boolean, limits open_queue[], queues text[],
    turns claim_turn[], is_narrow boolean, largest integer, total integer, opens_in double precision, last_tenant text);

-- What a step of a claim may take from one queue: the most jobs, the room for them, the heaviest, and whether its jobs
-- are counted.
create type step_bounds as (jobs integer, room integer, heaviest integer, is_counted smallint);

-- Jobs that a claim took together: alone has suspects, which run in a process without other jobs.
create type claimed_chunk as (lane smallint, assignment bigint, jobs integer, weight bigint, chunk text, alone boolean);

-- What a step of a claim found in one lane and queue, and what it took.
create type claim_step as (found integer, taken integer, weight bigint, chunks claimed_chunk[], parked integer,
    left_job bigint, is_drained boolean, is_whole boolean, is_cut boolean, is_blocked boolean, has_suspects boolean,
    last_rank timestamptz, last_job bigint);

-- Sequences -----------------------------------------------------------------------------------------------------------
-- Flags and moments are sequences too: a sequence changes at once and leaves no dead row.

create sequence asleep        minvalue 0;                         -- 1 while some master sleeps until a wake-up.
create sequence assignment;                                       -- The numbers of assignments: no two chunks of jobs
                                                                  -- share a fencing token.
create sequence awaited       minvalue 0;                         -- Until when clients wait for jobs to end, in seconds
                                                                  -- since 1970.
create sequence front_number;                                     -- The numbers of the rows of group_front.
create sequence has_late_ends minvalue 0;                         -- 1 while late_end may have rows.
create sequence has_limits    minvalue 0;                         -- 1 once a limit or a pause was set.
create sequence has_signals   minvalue 0;                         -- 1 once a signal was sent.
create sequence has_tenants   minvalue 0;                         -- 1 once a job with a tenant was enqueued.
create sequence incarnation   as integer;                         -- The numbers of the runs of nodes.
create sequence job_id;                                           -- The numbers of jobs.
create sequence lane          as smallint minvalue 0 maxvalue 7;  -- The lane for new ready jobs.
create sequence open_credit   minvalue 0;                         -- How many jobs may be enqueued as assigned to the
                                                                  -- node that has granted this, and which node that is.
create sequence rotated       minvalue 0;                         -- When a lane was last truncated, in milliseconds
                                                                  -- since 1970.

-- Tables: jobs --------------------------------------------------------------------------------------------------------

-- Every job; the partition it is in is its state.
create table job (
    job_id       bigint not null,
    rank         timestamptz not null,         -- least(not_before - priority * aging, not_after - 9 * aging): smaller
                                               -- goes first.
    not_before   timestamptz not null,
    not_after    timestamptz,
    enqueued_at  timestamptz not null,
    assigned_at  timestamptz,
    started_at   timestamptz,
    finished_at  timestamptz,
    assignment   bigint,                       -- Grows at every assignment; with the incarnation it is the token that
                                               -- fences writes.
    node_id      integer,
    incarnation  integer,
    weight       integer not null,
    priority     smallint not null,
    attempt      smallint not null default 0,  -- Runs that ended: done, failed, timed out or died.
    deaths       smallint not null default 0,  -- How many worker processes died while they ran the job.
    lane         smallint not null,
    state        job_state not null,
    waiting_for  text collate "C",
    work_type    text collate "C" not null,
    queue        text collate "C" not null,
    "group"      text collate "C",
    options      jsonb,
    payload      jsonb not null,
    error        text,
    result       jsonb,
    tenant       text collate "C",             -- Its tenant; the tenants of a queue take turns by their shares.
    handed       smallint,                     -- Not null if a message, which may be lost, delivers it to its node; 2
                                               -- for a notification of the database.
    counted      smallint,                     -- Not null while it runs under a limit of its queue.
    followed     smallint,                     -- Not null if its end affects other jobs or a schedule: see
                                               -- propagate_ends().
    fingerprint  text collate "C",             -- The fingerprint of its last error; for failed jobs and jobs that wait
                                               -- for a retry.
    failed_at    timestamptz,                  -- When the last attempt failed.
    progress     jsonb,                        -- The last progress that its handler reported: [done, total, note].
    steps        jsonb                         -- The steps of a job that older code has ended.
) partition by list (state);  -- replica identity full

create table job_waiting partition of job for values in ('waiting');
create table job_ready partition of job for values in ('ready') partition by list (lane);
create table job_ready_N partition of job_ready for values in (N);
create table job_assigned partition of job for values in ('assigned') partition by list (lane);
create table job_assigned_N partition of job_assigned for values in (N);
create table job_done partition of job for values in ('done') partition by range (finished_at) /* by day */;
create table job_failed partition of job for values in ('failed');
create table job_cancelled partition of job for values in ('cancelled') partition by range (finished_at) /* by day */;

create index on job_waiting (fingerprint, work_type, failed_at) where fingerprint is not null;
create index on job_waiting ("group", rank, job_id) where waiting_for in ('group', 'rate');
create index on job_waiting (job_id);
create index on job_waiting (not_before) where waiting_for in ('time', 'rate');
create index on job_waiting (priority, not_before) where (waiting_for in ('time', 'rate')) and priority > 4;
create index on job_waiting (work_type) where waiting_for = 'type';
create index on job_ready ("group", rank, job_id) where "group" is not null;
create index on job_ready (job_id);
create index on job_ready (queue) where deaths > 1;
create index on job_ready (queue, rank, job_id) where tenant is null;
create index on job_ready (queue, rank, job_id) where priority >= 7;
create index on job_ready (queue, tenant, rank, job_id) where tenant is not null;
create index on job_assigned ("group", assignment) where "group" is not null;
create index on job_assigned (incarnation, assignment) where handed is not null;
create index on job_assigned (job_id);
create index on job_assigned (queue) where counted is not null;
create index on job_assigned (tenant) where tenant is not null;
create index on job_done (job_id);
create index on job_failed (fingerprint, work_type, failed_at) where fingerprint is not null;
create index on job_failed (job_id);
create index on job_cancelled (job_id);

-- The steps of jobs: what they returned, and what the jobs wait for.
create table job_step (
    number       bigint generated always as identity,
    job_id       bigint not null,
    name         text collate "C" not null,
    kind         text not null,
    result       jsonb,
    error        text,              -- Why a wait has no result: its time was over, or its child has failed.
    signal       text collate "C",  -- The name of the awaited signal.
    child        bigint,            -- The job that was enqueued for this step, for whose end it waits.
    until        timestamptz,       -- When a wait ends by itself.
    began_at     timestamptz not null default clock_timestamp(),
    ended_at     timestamptz,       -- Null while the job waits.
    child_type   text,              -- The work type of an ended child, by which its result is read.
    child_state  text,              -- How its child has ended, if history has dropped that; result and error are those
                                    -- of the child then.
    annotation   text,              -- The type of the value that a wait takes, if its code says so.
    primary key (job_id, name)
);

-- The signals sent to jobs that have not ended.
create table job_signal (
    number    bigint generated always as identity,
    job_id    bigint not null,
    name      text collate "C" not null,
    key       text collate "C",  -- A second signal of this key and name is the same one.
    value     jsonb,
    sent_at   timestamptz not null default clock_timestamp(),
    taken_at  timestamptz,       -- When a step of the job has taken it. One without a key is deleted then.
    taken_by  text collate "C",  -- The step that has taken it.
    unique (job_id, name, key)
);  -- replica identity full

-- The failed attempts of jobs, kept as long as history.
create table failed_attempt (
    job_id        bigint not null,
    attempt       smallint not null,
    at            timestamptz not null default clock_timestamp(),
    began         timestamptz,  -- When the run was first reported, or else when the job was assigned.
    node_id       integer,
    error         text,
    error_class   text,         -- The module and name of its class; null if no error of the handler's ended the run.
    log           text,         -- The last entries that the run logged; null for none, and for redacted work.
    restarted_by  text          -- The operator that ended the run so that the job starts again; null for an attempt
                                -- that failed.
) partition by range (at) /* by day */;  -- replica identity full
create index on failed_attempt (job_id);

-- The jobs whose payload a worker could not read; the options of a job name the versions that tried.
create table unread_job (
    job_id      bigint primary key,
    since       timestamptz not null,
    until       timestamptz not null,                           -- When the job fails, unless a live node may be able to
                                                                -- read it.
    checked_at  timestamptz not null default clock_timestamp()  -- When was last looked whether a node may be able to
                                                                -- read it.
);
create index on unread_job (checked_at);

-- Tables: unique keys, parents and groups -----------------------------------------------------------------------------

-- The holder of a unique key, and the job that follows it.
create table unique_job (
    work_type  text collate "C" not null,
    key        text collate "C" not null,
    job_id     bigint not null,
    next_id    bigint,
    primary key (work_type, key)
);
create index on unique_job (job_id);
create index on unique_job (next_id) where next_id is not null;

-- Keys that were enqueued once, or as of a moment. No row is deleted by itself.
create table seen_key (
    work_type  text collate "C" not null,
    key        text collate "C" not null,
    job_id     bigint not null,
    as_of      timestamptz,
    at         timestamptz not null default now(),
    primary key (work_type, key)
);

-- Children and their parents; the rows of a child are deleted when it no longer waits.
create table job_parent (
    child    bigint not null,
    parent   bigint not null,
    any_end  boolean not null,
    ended    text collate "C",
    primary key (parent, child)
);
create index on job_parent (child);
create index on job_parent (child, parent) where ended is null;

-- Jobs to be looked at again: a transaction that concerned them had not committed when they ended.
create table late_end (job_id bigint not null);  -- replica identity full

-- Groups to check again: their parked jobs were locked when they should have become ready.
create table late_group ("group" text not null);  -- replica identity full

-- Where the jobs of a group begin that has many, for a few seconds. Each is a new row, of which the last counts;
-- without one, all is read.
create table group_front (
    "group"     text collate "C" not null,
    number      bigint not null default nextval('front_number'),
    rank        timestamptz not null,  -- With job_id: no job of the group is parked before it, and none was ready
                                       -- before it at looked_at.
    job_id      bigint not null,
    assignment  bigint not null,       -- No job of the group is assigned under a smaller number.
    noted_at    timestamptz not null,
    looked_at   timestamptz not null   -- When all ready jobs of the group were looked at.
);
create index on group_front ("group", number);

-- The jobs that keep their place in their group although they do not run: they wait at a step, or go on after it.
create table group_hold (
    job_id   bigint primary key,  -- The job.
    "group"  text not null        -- The group.
);
create index on group_hold ("group");

-- Tables: schedules ---------------------------------------------------------------------------------------------------

-- Work that comes again: when, and what is enqueued then.
create table schedule (
    schedule_id       bigint generated always as identity primary key,
    name              text collate "C" not null unique check (length(name) between 1 and 200),
    kind              text not null check (kind in ('cron', 'every', 'cooldown')),
    expression        text,
    zone              text,
    seconds           double precision check (seconds between 1 and (366 * 86400)),
    jitter            double precision not null default 0 check (jitter between 0 and (366 * 86400)),
    catch_up          text not null default 'skip' check (catch_up in ('skip', 'one', 'all')),
    job               jsonb not null,                   -- What is enqueued: an element of what enqueue_many() takes.
    work_type         text collate "C" not null generated always as (job ->> 'work_type') stored,
    "group"           text collate "C" generated always as (job ->> 'group') stored,
    tenant            text collate "C" generated always as (job ->> 'tenant') stored,
    condition_table   text,
    condition_column  text,
    condition_value   text,
    is_declared       boolean not null default false,
    is_active         boolean not null default true,
    next_due          timestamptz default '-infinity',  -- When it is due; -infinity until a node has computed it, null
                                                        -- while the job of a cool-down has not ended.
    last_due          timestamptz,
    last_job          bigint,
    recent            bigint[] not null default '{}',   -- Its last twenty jobs, the latest first; dues has the moments
                                                        -- they were for.
    dues              timestamptz[] not null default '{}',
    error             text,
    until             timestamptz,
    times             integer check (times between 1 and 1000000000),
    runs              bigint not null default 0,
    overlap           text not null default 'allow' check (overlap in ('allow', 'skip')),
                                                        -- Whether a moment at which its last job has not ended gets a
                                                        -- job.
    counts_from       text not null default 'end' check (counts_from in ('start', 'end')),
                                                        -- Whether its cool-down counts since the start or the end of
                                                        -- its last job.
    put_off           timestamptz,                      -- The moment of the next job, if that was put off to next_due
                                                        -- after an outage.
    check ((condition_table is null) = (condition_column is null)),
    check ((kind = 'cron') = (expression is not null)),
    check ((kind = 'cron') = (seconds is null)),
    check ((kind = 'cron') = (zone is not null))
);
create index on schedule (last_job) where kind = 'cooldown';
create index on schedule (next_due) where is_active;
create index on schedule (seconds) where kind = 'cooldown' and is_active and next_due is null;

-- Tables: worksets ----------------------------------------------------------------------------------------------------

-- The sets: each has a table of its own, workset_<name>, or is an application's table.
create table workset (
    workset_id  integer generated always as identity primary key,
    name        text collate "C" not null unique check (name ~ '^[a-z][a-z0-9_]{0,49}$'),
    work_type   text collate "C" not null,
    source      text,                       -- The application's table; null if the items are in a table of its own.
    job         jsonb not null,             -- What each of its jobs is enqueued as.
    size        smallint not null check (size between 1 and 1000),
    batch       integer not null check (batch between 1 and 100000),
    bound       bigint check (bound > 0),
    is_started  boolean not null default false,
    is_cut      boolean not null default true,
    cut_to      text,                       -- The last key of the application's table that is in a part.
    expected    bigint not null default 0,
    done        bigint not null default 0,  -- Items counted by jobs that have ended; see workset_slot.
    failed      bigint not null default 0,
    owner       text                        -- The login of the application that made it, which alone may change it;
                                            -- null if only nodes have.
);

-- The jobs of the worksets, at most size of each, with what each has counted.
create table workset_slot (
    job_id      bigint primary key,
    workset_id  integer not null,
    done        bigint not null default 0,
    failed      bigint not null default 0
) with (fillfactor=50);

-- What is still to be done, a row for a batch of items; one that is done is deleted.
create table workset_part (
    part_id     bigint generated always as identity primary key,
    workset_id  integer not null,
    origin      bigint not null,  -- The part in which the items were added, as in their own table.
    first       text,
    last        text,
    keys        text[],           -- The keys, of origin or of the application's table; null for all from first to last.
    items       integer not null check (items > 0),
    attempt     smallint not null default 0,
    taken       smallint not null default 0,
    not_before  timestamptz not null default clock_timestamp(),
    job_id      bigint
);
create index on workset_part (workset_id, job_id) where job_id is not null;
create index on workset_part (workset_id, not_before, part_id) where job_id is null;

-- Items that have spent their attempts, kept until an operator acts.
create table workset_failed (
    workset_id  integer not null,
    origin      bigint not null,
    key         text not null,
    attempt     smallint not null,
    error       text not null,
    at          timestamptz not null default clock_timestamp(),
    primary key (workset_id, origin, key)
);

-- Tables: nodes -------------------------------------------------------------------------------------------------------

-- One row a node; an incarnation is one run of it.
create table node_info (
    node_id        integer generated always as identity primary key,
    name           text not null unique,
    hostname       text not null,
    pid            integer not null,
    port           integer,
    incarnation    integer not null unique,
    started_at     timestamptz not null default now(),
    heartbeat_at   timestamptz not null default now(),
    lease          interval not null,
    state          text not null default 'alive' check (state in ('alive', 'draining', 'stopped', 'dead')),
    load           double precision not null default 0,
    capacity       integer not null,
    queues         text[] not null,
    work_types     text[] not null,
    version        text not null default '',
    address        text,                                -- Where peers connect to it, with the port; null if it listens
                                                        -- for none.
    report         jsonb not null default '{}',         -- Its report at the last heartbeat: lag, memory, workers.
    leased_at      timestamptz not null default now(),  -- Since when it has kept its lease without a break.
    vouched_at     timestamptz,                         -- Since when only peers renew its lease; null if it does so
                                                        -- itself.
    former         integer,                             -- The previous incarnation, whose claim may commit late.
    ended_at       timestamptz,                         -- When it was declared dead or was stopped; its claim may still
                                                        -- commit.
    beats          bigint not null default 0,           -- Its heartbeats so far: fewer than it has counted if the
                                                        -- database was restored to an earlier state.
    type_versions  text[] not null default '{}'         -- The versions of the fields of its work types, as
                                                        -- type#version.
) with (fillfactor=50);
create index on node_info (ended_at) where ended_at is not null;
create index on node_info (incarnation) where state in ('alive', 'draining');
create index on node_info (started_at);

-- The channel on which each run of a node listens for its jobs. Who knows its name can read them, and send others: no
-- role but the owner may read it.
create table node_channel (
    incarnation  integer primary key,  -- The run of the node.
    channel      text not null         -- Its name, which cannot be guessed.
);

-- The policies of the work types that nodes have published.
create table work_type (
    work_type     text collate "C" primary key check (work_type ~ '^[A-Za-z0-9_][A-Za-z0-9_.:<>-]{0,199}$'),
    queue         text collate "C" not null,
    priority      smallint not null check (priority between 0 and 9),
    weight        integer not null check (weight > 0),
    policy        jsonb not null default '{}',
    published_at  timestamptz not null default now()
);

-- Tables: operators ---------------------------------------------------------------------------------------------------

-- The settings of the whole queue, for all nodes and clients.
create table setting (
    only_row       boolean default true primary key check (only_row),
    aging          interval not null default '00:10:00',     -- The waiting time that weighs as much as one step of
                                                             -- priority.
    payload_limit  integer not null default 1048576,         -- The longest payload, in bytes of its JSON text.
    history_kept   interval not null default '30 days',      -- How long done and cancelled jobs are kept.
    identity       uuid not null default gen_random_uuid(),  -- The identity of this queue, which a client and a node
                                                             -- compare.
    archive        text check (archive ~ '^(/|s3://[^/@]+)' and archive !~ '^s3://[^/]*@'),
                                                             -- Where days of history are archived before they are
                                                             -- dropped: a folder or s3://bucket/prefix.
    keys_required  boolean not null default false            -- Whether each job that SQL enqueues must have the keys of
                                                             -- its type, and name those that only its class can
                                                             -- compute.
);

-- Pauses and limits of queues, groups and tenants.
create table control (
    control_id   integer generated always as identity unique,
    kind         text not null check (kind in ('queue', 'group', 'tenant')),
    key          text collate "C" not null check (length(key) between 1 and 1000),
    is_paused    boolean not null default false,
    concurrency  integer check (concurrency > 0),
    rate         double precision check (rate > 0 and rate <= 1000000),
                                                  -- Jobs taken a second; what is left of burst is kept in the sequence
                                                  -- bucket_<control_id>.
    burst        integer not null default 1 check (burst between 1 and 1000000),
    share        double precision not null default 1 check (share > 0 and share <= 1000000),
    reserve      double precision not null default 0 check (reserve >= 0 and reserve < 1),
                                                  -- The part of a node's capacity that only priorities from 7 may take
                                                  -- from this queue.
    backlog      bigint check (backlog > 0),      -- How many jobs of this queue may wait or be ready before more are
                                                  -- refused.
    is_full      boolean not null default false,  -- Whether the backlog was full at the last check.
    primary key (kind, key)
);

-- A row for every act of an operator.
create table action (
    action_id  bigint generated always as identity primary key,
    at         timestamptz not null default clock_timestamp(),
    who        text not null,
    what       text not null,
    subject    text not null,
    detail     jsonb not null default '{}'
);
create index on action using gin ((detail -> 'jobs') jsonb_path_ops);
create index on action (subject, action_id);

-- Requests to cancel assigned jobs, each until the job has ended, and to end runs whose jobs were restarted.
create table request (
    incarnation  integer not null,
    job_id       bigint not null,
    assignment   bigint not null,
    who          text not null,
    at           timestamptz not null default clock_timestamp(),
    is_restart   boolean not null default false,  -- Whether only the run is to end, and the job starts again.
    primary key (incarnation, job_id, assignment)
);

-- Tables: history -----------------------------------------------------------------------------------------------------

-- Which numbers the jobs of a past day have, so that one is found without a search of all days.
create table history_day (
    leaf     text primary key,
    lowest   bigint,
    highest  bigint
);

-- The days of history that have been archived, or are being archived.
create table archived (
    leaf         text primary key,
    state        job_state not null,
    day          date not null,
    attempt      integer not null default 1,  -- Grows with every attempt and every change of the day: an older attempt
                                              -- no longer counts.
    location     text,
    jobs         bigint,
    checksum     text,
    verified_at  timestamptz,
    dropped_at   timestamptz,
    lowest       bigint,
    highest      bigint,
    ids          int8multirange,              -- The numbers of its jobs, from lowest to highest; null if they are not
                                              -- known: archived by an earlier release, or more than a million ranges.
    hours        jsonb                        -- What stats() counts of it by hour and work type; null if an earlier
                                              -- release has archived it.
);
create index on archived (day);

-- When the counts of a minute, or later of an hour, were noted.
create table minute_mark (
    at        timestamptz primary key,
    seconds   real not null,  -- How long a time before it they are of.
    last_job  bigint not null,
    enqueued  bigint          -- How many jobs were numbered in that time; null after a pause.
);

-- What the jobs of a queue and work type did until a mark.
create table minute_counts (
    at         timestamptz not null,
    queue      text collate "C" not null,
    work_type  text collate "C" not null,
    done       integer not null default 0,
    failed     integer not null default 0,  -- Failed attempts, also those that were tried again.
    wait_p50   real,                        -- Seconds from when a done job could run to its start: half of them waited
                                            -- less.
    wait_p95   real,
    run_p50    real,
    run_p95    real,
    waiting    integer,                     -- How many jobs waited at the mark; null if there were too many to count.
    ready      integer,
    assigned   integer,
    primary key (at, queue, work_type)
);

-- Tables: locks -------------------------------------------------------------------------------------------------------

-- Rows for locking: 0 to 16383 for groups, limited queues and tenants, the others for worksets.
create table key_lock (key smallint primary key);

-- Rows that a session locks while it does a duty for all. The duty archive has a holder instead, as it takes many
-- transactions.
create table duty (
    name    text primary key,
    holder  uuid,        -- The process that archives, by a random number of its own; null before the first.
    until   timestamptz  -- Until when it has the duty unless it renews it.
);

-- For locking: claims share it, a change of a limit locks it exclusively.
create table claiming ();

-- Tables: migrations --------------------------------------------------------------------------------------------------

-- The migrations that have been applied.
create table migration (
    number      integer primary key,
    name        text not null,
    applied_at  timestamptz not null default now(),
    serves      integer  -- The oldest version whose code works with the schema; the step's own if null.
);

-- To be locked by the one session that migrates.
create table migrating ();

-- Views ---------------------------------------------------------------------------------------------------------------

-- Failed jobs, and jobs that wait for a retry, by the kind of their last error.
view failures (fingerprint text, work_type text, failed bigint, waiting bigint, first_seen timestamptz,
    last_seen timestamptz, example bigint, error text, is_more boolean);

-- The estimated number of jobs in history.
view history_size (state text, jobs bigint);

-- The numbers of jobs that are not history.
view live_jobs (queue text, work_type text, state job_state, waiting_for text, jobs bigint, oldest timestamptz);

-- What each tenant has that is not history yet.
view live_tenants (tenant text, waiting bigint, ready bigint, assigned bigint, failed bigint, oldest_ready timestamptz,
    share double precision, concurrency integer, is_paused boolean);

-- The nodes and their current status.
view node_status (node_id integer, name text, hostname text, pid integer, port integer, incarnation integer,
    started_at timestamptz, heartbeat_at timestamptz, state text, load double precision, capacity integer, jobs bigint,
    queues text[], work_types text[], lease double precision, version text, address text, report jsonb,
    lacking_right text, right_remedy text);

-- What keeps vacuum from removing dead rows.
view old_snapshots (kind text, name text, pid integer, since timestamptz);

-- Recently done jobs, by queue.
view recent_done (queue text, jobs bigint, since timestamptz);

-- The progress of each workset.
view workset_status (name text, work_type text, source text, size smallint, batch integer, bound bigint,
    is_started boolean, parts bigint, running bigint, waiting_until timestamptz, done bigint, failed bigint,
    jobs bigint, remaining bigint, is_exact boolean);

-- Functions -----------------------------------------------------------------------------------------------------------
-- By file of schema/functions. Behind a signature: the roles that may execute it, without their prefix txqueue_.
-- schema/README.md says what each function does.

-- acts
cancel(ids bigint[], who text) returns (cancelled bigint[], requested jsonb, refused bigint[]);  -- worker
repeat(its_job_id bigint, who text) returns bigint;  -- worker
repeat_archived(its_job_id bigint, columns jsonb, its_payload jsonb, its_options jsonb, who text)
    returns bigint;  -- worker
restart(ids bigint[], who text, is_counted boolean = false) returns (restarted jsonb, requested jsonb,
    refused bigint[]);  -- worker
retry(ids bigint[], who text) returns (retried bigint[], refused bigint[]);  -- worker
retry_from(its_job_id bigint, its_step text, who text) returns integer;  -- worker
row_locker(its_xmax xid, leaf oid) returns integer;  -- read, worker
set_priority(ids bigint[], its_priority integer, who text) returns (changed bigint[], refused bigint[]);  -- worker
-- only the owner may execute: cancel_jobs, enqueue_again, format_job_ids, is_live_job, lock_acted_on, note_action,
-- reopen, reopen_obstacles, reset_for_retry, restore_steps

-- checks
advance_sequences(is_thorough boolean = true) returns text[];  -- worker
find_damage(options jsonb = null, payload jsonb = null, result jsonb = null, progress jsonb = null, error text = null)
    returns text;  -- read, worker
is_input(given text, its_type regtype) returns boolean;  -- worker
lagging_sequences(is_thorough boolean = true) returns table(name text, present bigint, needed bigint);  -- read, worker
readable_json(value jsonb) returns jsonb;  -- read, worker
readable_text(value text) returns text;  -- read, worker
-- only the owner may execute: check_isolation, fail_if_damaged, has_large_values, is_member, nearest_name, refuse,
-- sound_jobs, without_values

-- claim
next_job(its_node integer, its_incarnation integer, queues text[], work_types text[], free_weight integer,
    largest integer, capacity integer, chunk_jobs integer, workers integer, since timestamptz = null,
    take_suspects boolean = true, from_rank timestamptz = '-infinity', after_tenant text = '', from_job bigint = 0,
    its_load double precision = null, ahead integer = 0, turn_length integer = 100) returns table(lane smallint,
    assignment bigint, jobs integer, weight bigint, chunk text, alone boolean, due_in double precision,
    seen_at timestamptz, reached text, last_tenant text, reached_job bigint, searched double precision, passed text,
    passed_job bigint, left_job bigint);  -- worker
set_aside(its_incarnation integer, queues text[]) returns bigint[];  -- worker
-- only the owner may execute: assign_N, attainable_room, bound_step, chunk_entry, chunk_of, fail_unreadable,
-- find_fault, find_head, find_heads, find_last, find_loss, fit_capacity_N, in_order, job_terms, lanes_in_use,
-- leave_remnant, lock_ready_N, measure_search, most_attainable, next_assignment, open_claim, ready_queues,
-- separate_suspects, take_first_N, take_step_N, turn_to_reserve

-- complete
complete(its_incarnation integer, lanes smallint[], assignments bigint[], ids text[], results text[] = null)
    returns (total integer, freed boolean, freed_rank text, freed_job bigint);  -- worker
complete_one(its_incarnation integer, its_assignment bigint, its_job_id bigint, its_result jsonb,
    its_progress jsonb = null, its_lane integer = null) returns void;  -- worker
held_jobs(its_incarnation integer, ids bigint[]) returns bigint[];  -- worker
release(its_incarnation integer, assignments bigint[], died boolean, all_but boolean = false, ids bigint[] = null,
    spare_handed boolean = false, at_most integer = null) returns integer;  -- worker
-- only the owner may execute: complete_each_N, complete_in_N, give_back, lane_of_jobs, pass_on_ends

-- dispatch
assignments_of(its_incarnation integer, older_than double precision) returns table(assignment bigint,
    jobs bigint);  -- worker
direct_jobs(its_incarnation integer, its_assignment bigint = null, known bigint[] = '{}') returns table(lane smallint,
    assignment bigint, jobs integer, weight bigint, chunk text);  -- worker
enqueue_assigned(its_node integer, its_incarnation integer, work_type text, payload jsonb, queue text = null,
    priority integer = null, weight integer = null, not_before timestamptz = null, not_after timestamptz = null,
    "group" text = null, options jsonb = null, tenant text = null) returns (job_id bigint, assignment bigint,
    lane smallint, its_weight integer);  -- enqueue, worker
grant_credit(its_incarnation integer, jobs integer, unused bigint = null) returns bigint;  -- worker
jobs_of(its_incarnation integer, assignments bigint[]) returns table(assignment bigint, job_id bigint);  -- worker
listen_to_run(its_incarnation integer) returns text;  -- worker
pass_on(its_incarnation integer, assignments bigint[], ids bigint[], to_incarnation integer, parts integer = 1)
    returns table(assignment bigint, jobs integer, weight bigint, ids_passed bigint[]);  -- worker
probe_run(its_incarnation integer) returns text;  -- worker
reserve_run(its_name text) returns (incarnation integer, former integer);  -- worker
silent_jobs() returns bigint[];  -- read, worker
-- only the owner may execute: credit_left, credit_run, enqueue_credited, has_open_credit, may_assign_at_once,
-- may_notify, notify_run, starts_jobs, try_turn

-- enqueue
enqueue(work_type text, payload jsonb) returns bigint;  -- enqueue, worker
enqueue(work_type character varying, payload jsonb, queue text = null, priority integer = null, weight integer = null,
    not_before timestamptz = null, not_after timestamptz = null, "group" text = null, options jsonb = null,
    tenant text = null, "unique" text = null, unique_mode text = null, after bigint[] = null,
    after_any_end boolean = null) returns bigint;  -- enqueue, worker
enqueue_checked(jobs jsonb) returns bigint[];  -- enqueue, worker
enqueue_many(jobs jsonb) returns bigint[];  -- enqueue, worker
-- only the owner may execute: enqueue_each, has_sleeping_master, wake_masters

-- enqueue_checks
is_read_in_clear(its_type text) returns boolean;  -- read, worker
-- only the owner may execute: check_encrypted, check_job, find_broken_length, find_broken_option, find_broken_rule,
-- has_broken_tag, is_short_object, known_options, member_text, payload_octets, refuse_computed, refuse_full_queue,
-- refuse_job, refuse_keyless, refuse_member, refuse_option, refuse_unknown_keys, refuse_unknown_option

-- explain
demand(queue text) returns bigint;  -- enqueue, read, worker
explain_each(ids bigint[]) returns table(job_id bigint, facts jsonb);  -- read, worker
explain_facts(its_job_id bigint) returns jsonb;  -- read, worker
updated_at(its job) returns timestamptz;  -- read, worker
-- only the owner may execute: ahead_facts, control_facts, goes_first, group_facts, group_limit, limited_now,
-- lock_facts, own_cycle, passes_over

-- failures
discard_failures(its_fingerprint text, who text, before timestamptz = null, at_most integer = 1000)
    returns (discarded integer, until timestamptz);  -- worker
failure_kinds(most_kinds integer, most_jobs integer) returns table(fingerprint text, work_type text, failed bigint,
    waiting bigint, first_seen timestamptz, last_seen timestamptz, example bigint, error text,
    is_more boolean);  -- read, worker
postpone_failures(its_fingerprint text, who text, delay double precision, moment timestamptz = null,
    at_most integer = 1000) returns (postponed integer, until timestamptz);  -- worker
retry_failures(its_fingerprint text, who text, before timestamptz = null, at_most integer = 1000)
    returns (retried integer, until timestamptz);  -- worker
-- only the owner may execute: error_kind, error_shape, fingerprint

-- groups
-- only the owner may execute: admit_groups_N, end_rate_waits, free_groups, free_late_groups, group_slots, lock_groups,
-- note_fronts

-- history
begin_archive(its_leaf text) returns integer;  -- worker
drop_archived(its_leaf text) returns boolean;  -- worker
end_archive(its_leaf text, its_attempt integer, its_location text, its_jobs bigint, its_checksum text)
    returns boolean;  -- worker
ensure_history() returns text[];  -- worker
find_archived(its_id bigint) returns table(state job_state, day date, location text);  -- read, worker
find_job(its_id bigint) returns setof job;  -- read, worker
history_due(before date = null) returns table(leaf text, state text, day date);  -- worker
hold_archiving(its_holder uuid, seconds double precision) returns boolean;  -- worker
-- only the owner may execute: drop_leaf, forget_deleted, forget_steps, last_pages, note_history_change,
-- note_history_days

-- keys
-- only the owner may execute: compute_key, declared_keys, key_of, lock_keys, try_duty, try_keys, with_keys,
-- without_keys_option

-- limits
backlog(queue text) returns bigint;  -- enqueue, read, worker
pause(its_kind text, its_key text, who text) returns boolean;  -- worker
refresh_backlog_flags() returns void;  -- worker
resume(its_kind text, its_key text, who text) returns boolean;  -- worker
set_limit(its_kind text, its_key text, its_concurrency integer, its_rate double precision, its_burst integer,
    its_share double precision, its_reserve double precision, who text, cleared text[] = '{}',
    its_backlog bigint = null) returns jsonb;  -- worker
-- only the owner may execute: bucket_level, charge_bucket, charge_control, check_limit, compute_allowances,
-- count_backlog, has_limits, is_unlimited_tenant, lock_control, next_tenants, note_tenants, open_queues, save_control,
-- tenant_turns

-- minutes
chart(its_span double precision, its_step double precision, its_queue text = null, its_work_type text = null)
    returns table(at timestamptz, seconds double precision, enqueued double precision, done double precision,
    failed double precision, wait_p50 double precision, wait_p95 double precision, run_p50 double precision,
    run_p95 double precision, waiting double precision, ready double precision,
    assigned double precision);  -- read, worker
measure_minute(bounds double precision[]) returns table(queue text, work_type text, counts bigint[],
    total double precision);  -- worker
note_minute() returns boolean;  -- worker
stats(since timestamptz, until timestamptz = now()) returns table(hour timestamptz, work_type text, done bigint,
    failed bigint, cancelled bigint, busy double precision, mean double precision, longest double precision,
    waited double precision);  -- read, worker
-- only the owner may execute: merge_minutes, minute_failures, minute_figures

-- nodes
declare_dead(its_incarnation integer, ended integer[]) returns integer;  -- worker
drain_node(its_name text, who text) returns boolean;  -- worker
heartbeat(its_incarnation integer, its_load double precision, its_report jsonb = '{}') returns (owned boolean,
    its_state text, peers jsonb, cancels jsonb, neighbours jsonb, next_end double precision, place integer,
    places integer, rescued integer, nodes integer, beats bigint, server text, restarts jsonb, is_idle boolean,
    work_in double precision, schedule_in double precision);  -- worker
identity() returns uuid;  -- enqueue, read, worker
leave(its_incarnation integer, its_state text) returns integer;  -- worker
publish(work_types jsonb) returns integer;  -- worker
register_node(its_name text, its_hostname text, its_pid integer, its_port integer, its_lease double precision,
    its_capacity integer, its_queues text[], its_work_types jsonb, its_version text, its_address text,
    reserved integer = null, its_former integer = null, former_died boolean = true) returns (node_id integer,
    incarnation integer);  -- worker
renew_for_peer(its_incarnation integer, heard integer[]) returns integer[];  -- worker
rescue(its_incarnation integer = null) returns integer;  -- worker
reserve_incarnation() returns integer;  -- worker
undrain_node(its_name text, who text) returns boolean;  -- worker
-- only the owner may execute: cancel_returned, find_cancellations, first_end, forget_future_beats, has_lighter_node,
-- has_reader, is_reachable, is_stale_cancellation, lease_margin, lock_live_node, look_around, mark_dead, nearest_nodes,
-- refused_session, review_unread, server_identity, serves_type

-- ready
claim_given(its_node integer, its_incarnation integer, work_types text[], given bigint[], since bigint, is_own boolean,
    moment timestamptz) returns jsonb;  -- worker
claim_ready(its_node integer, its_incarnation integer, queues text[], work_types text[], at_most integer)
    returns (lane smallint, assignment bigint, jobs integer, weight bigint, chunk text, is_ordinary boolean);  -- worker
-- only the owner may execute: compute_rank, current_lane, make_eligible, make_published_ready, make_ready, next_due,
-- promote, promote_due

-- relations
notify_ends(ids text) returns double precision;  -- worker
request_end_notices(seconds integer = 10) returns void;  -- enqueue, worker
-- only the owner may execute: add_parent_ids, add_parent_outcomes, awaits_end, cancel_orphan, enqueue_child,
-- find_held_children, has_waiting_clients, hold_for_parents, hold_for_parents_again, is_late_end_in_use, link_parents,
-- lock_children, note_late_ends, notify_ended_jobs, propagate_ends, propagate_late_ends, propagate_noted,
-- unblock_children, wait_for_new_ends

-- roles
lacking_right(report jsonb, is_silent boolean) returns (what text, remedy text);  -- read, worker
-- only the owner may execute: grant_roles

-- rotation
rotate(held text[] = '{}', least_bytes bigint = 262144, at_most integer = 2) returns (did text[],
    holders text[]);  -- worker
-- only the owner may execute: count_lane_rows, drop_remnants, free_lanes, lane_holders, lanes, move_stragglers,
-- next_lane, truncate_if_empty

-- schedules
due_schedules(since timestamptz = null, at_most integer = 500, busy text[] = '{}') returns (due jsonb,
    due_in double precision, seen_at timestamptz);  -- worker
edit_schedule(its_name text, terms jsonb, who text) returns boolean;  -- worker
find_met_conditions(its_table text, its_column text, given text[]) returns text[];  -- worker
pause_schedule(its_name text, who text) returns boolean;  -- worker
publish_schedules(its_work_types text[], schedules jsonb) returns integer;  -- worker
put_schedule(its_name text, terms jsonb, its_job jsonb, condition jsonb, who text, declared boolean = false)
    returns boolean;  -- worker
remove_schedule(its_name text, who text) returns bigint;  -- worker
resume_schedule(its_name text, who text) returns boolean;  -- worker
run_schedule(its_name text, who text) returns bigint;  -- worker
schedule_runs(names text[], at_most integer = 20) returns table(name text, due timestamptz, job_id bigint, outcome text,
    started_at timestamptz, finished_at timestamptz, late double precision, took double precision, attempt smallint,
    error text);  -- read, worker
scheduled_keys(its_job jsonb) returns ("group" text, tenant text);  -- read, worker
start_missed_cooldowns() returns integer;  -- worker
tick(ticks jsonb) returns integer;  -- worker
-- only the owner may execute: check_schedule, check_schedule_times, cooldown_start, enqueue_runs, first_due,
-- lock_schedule, next_due_within, only_enqueued, save_schedule, schedule_options, start_cooldowns

-- settle
note_late_error(its_incarnation integer, its_assignment bigint, its_job_id bigint, its_error text)
    returns void;  -- worker
note_late_result(its_incarnation integer, its_assignment bigint, its_job_id bigint, its_result jsonb)
    returns boolean;  -- worker
settle(its_incarnation integer, outcomes jsonb) returns (settled bigint[], freed boolean, freed_rank text,
    freed_job bigint);  -- worker
started(its_incarnation integer, assignments bigint[], ids bigint[], seconds double precision[], progress text[] = null)
    returns integer;  -- worker
-- only the owner may execute: end_assigned, fail_unread, forget_attempts, leave_unread, make_next_stage, note_attempt,
-- note_restart, return_unread, stages_with, start_next_stages, with_no_key, with_unread, without_assignment

-- signals
encrypted_type(job_id bigint, name text) returns text;  -- enqueue, worker
send_signal(its_job_id bigint, its_name text, its_value jsonb, its_key text, who text) returns boolean;  -- worker
signal(job_id bigint, name text, value jsonb = null, key text = null) returns boolean;  -- enqueue, worker
signal_keyed(work_type text, "unique" text, name text, value jsonb = null, key text = null)
    returns boolean;  -- enqueue, worker
-- only the owner may execute: has_signals, is_sealed, refuse_signal, resume_signalled, take_signal

-- steps
kept_steps(its_job_id bigint) returns jsonb;  -- worker
load_steps(its_job_id bigint) returns (name text, kind text, result text, error text, is_ended boolean,
    seconds double precision, child bigint, child_state text, child_type text, child_result text,
    child_error text);  -- worker
write_step(its_incarnation integer, its_assignment bigint, its_job_id bigint, its_name text, its_result jsonb,
    its_child bigint = null, its_lane integer = null) returns void;  -- worker
write_steps(its_incarnation integer, given jsonb) returns (place integer, value text);  -- worker
-- only the owner may execute: hold_for_step_N, signalled_jobs, suspend_jobs, wait_for_steps

-- unique
coalesce_into(its_incarnation integer, its_assignment bigint, its_job_id bigint, at_most integer, later boolean = false)
    returns table(taken_id bigint, taken_type text, taken_payload text);  -- worker
-- only the owner may execute: can_change_payload, check_as_of, check_once_for, check_unique, enqueue_related,
-- enqueue_remembered, enqueue_unique, find_held_keys, holds_unique_key, pass_on_unique_keys, refuse_duplicate,
-- replace_pending, retake_unique_keys, take_newest

-- worksets
add_parts(its_name text, firsts text[], lasts text[], counts integer[], is_all boolean) returns void;  -- worker
end_part(its_incarnation integer, its_assignment bigint, its_job_id bigint, its_part bigint, failures jsonb = null)
    returns boolean;  -- worker
end_slot(its_incarnation integer, its_assignment bigint, its_job_id bigint, its_name text, is_renewed boolean)
    returns boolean;  -- worker
ensure_workset(spec jsonb) returns integer;  -- worker, worksets
fill_workset(its_name text, items jsonb) returns bigint;  -- worker, worksets
lock_next_cut(its_name text) returns (is_cut boolean, cut_to text);  -- worker
next_part(its_incarnation integer, its_assignment bigint, its_job_id bigint, its_name text, performed bigint = null,
    failures jsonb = null) returns (held boolean, part bigint, first text, last text, keys text[], items integer,
    attempt integer, taken integer, content text, due_in double precision);  -- worker
retry_workset(its_name text) returns bigint;  -- worker, worksets
split_workset_part(its_incarnation integer, its_assignment bigint, its_job_id bigint, its_part bigint, its_keys text[],
    size integer, delay double precision = 0) returns boolean;  -- worker
start_workset(its_name text, its_items bigint = null) returns integer;  -- worker, worksets
-- only the owner may execute: check_workset_table, fill_slots, lock_workset, refuse_workset, workset_columns

-- Grants --------------------------------------------------------------------------------------------------------------
-- role              privilege  on
--
-- txqueue_enqueue   usage      schema txqueue
--                   select     migration
--                   execute    backlog, demand, encrypted_type, enqueue, enqueue_assigned, enqueue_checked,
--                              enqueue_many, identity, request_end_notices, signal, signal_keyed
--
-- txqueue_read      usage      schema txqueue
--                   select     action, archived, claiming, control, duty, failed_attempt, failures, group_front,
--                              group_hold, history_day, history_size, job, job_id, job_parent, job_signal, job_step,
--                              key_lock, late_end, late_group, live_jobs, live_tenants, migrating, migration,
--                              minute_counts, minute_mark, node_info, node_status, old_snapshots, recent_done, request,
--                              schedule, seen_key, setting, unique_job, unread_job, work_type, workset, workset_failed,
--                              workset_part, workset_slot, workset_status
--                   execute    backlog, chart, demand, explain_each, explain_facts, failure_kinds, find_archived,
--                              find_damage, find_job, identity, is_read_in_clear, lacking_right, lagging_sequences,
--                              readable_json, readable_text, row_locker, schedule_runs, scheduled_keys, silent_jobs,
--                              stats, updated_at
--
-- txqueue_worker    usage      schema txqueue
--                   select     action, archived, claiming, control, duty, failed_attempt, failures, group_front,
--                              group_hold, history_day, history_size, job, job_id, job_parent, job_signal, job_step,
--                              key_lock, late_end, late_group, live_jobs, live_tenants, migrating, migration,
--                              minute_counts, minute_mark, node_info, node_status, old_snapshots, recent_done, request,
--                              schedule, seen_key, setting, unique_job, unread_job, work_type, workset, workset_failed,
--                              workset_part, workset_slot, workset_status
--                   execute    add_parts, advance_sequences, assignments_of, backlog, begin_archive, cancel, chart,
--                              claim_given, claim_ready, coalesce_into, complete, complete_one, declare_dead, demand,
--                              direct_jobs, discard_failures, drain_node, drop_archived, due_schedules, edit_schedule,
--                              encrypted_type, end_archive, end_part, end_slot, enqueue, enqueue_assigned,
--                              enqueue_checked, enqueue_many, ensure_history, ensure_workset, explain_each,
--                              explain_facts, failure_kinds, fill_workset, find_archived, find_damage, find_job,
--                              find_met_conditions, grant_credit, heartbeat, held_jobs, history_due, hold_archiving,
--                              identity, is_input, is_read_in_clear, jobs_of, kept_steps, lacking_right,
--                              lagging_sequences, leave, listen_to_run, load_steps, lock_next_cut, measure_minute,
--                              next_job, next_part, note_late_error, note_late_result, note_minute, notify_ends,
--                              pass_on, pause, pause_schedule, postpone_failures, probe_run, publish,
--                              publish_schedules, put_schedule, readable_json, readable_text, refresh_backlog_flags,
--                              register_node, release, remove_schedule, renew_for_peer, repeat, repeat_archived,
--                              request_end_notices, rescue, reserve_incarnation, reserve_run, restart, resume,
--                              resume_schedule, retry, retry_failures, retry_from, retry_workset, rotate, row_locker,
--                              run_schedule, schedule_runs, scheduled_keys, send_signal, set_aside, set_limit,
--                              set_priority, settle, signal, signal_keyed, silent_jobs, split_workset_part,
--                              start_missed_cooldowns, start_workset, started, stats, tick, undrain_node, updated_at,
--                              write_step, write_steps
--
-- txqueue_worksets  usage      schema txqueue
--                   select     migration
--                   execute    ensure_workset, fill_workset, retry_workset, start_workset
