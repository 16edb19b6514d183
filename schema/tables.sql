-- The types, sequences and tables of a new database, as they are today; a database of an older version comes to the same
-- by the steps of migrations/. docs/explanation/schema.md explains the partitions.

-- What stands directly above a table or type, and beside or below a sequence or column, is its comment in the catalogue.

-- The states of a job; each is a partition of job.
create type txqueue.job_state as enum ('waiting', 'ready', 'assigned', 'done', 'failed', 'cancelled');

-- A turn of a claim: the jobs of a tenant, up to a part of the room; without a tenant, the jobs of no tenant, or those
-- that may use a reserve.
create type txqueue.claim_turn as (tenant text, part integer, is_reserve boolean);

-- The first ready job of a lane and queue, and the rank and number at which the turn of another one begins.
create type txqueue.ready_head as (lane smallint, queue text, rank timestamptz, job_id bigint, until_rank timestamptz,
    until_job bigint);

-- The limits of a queue in one claim: the number of jobs (null for any number), the weight that stays free for priority
-- 7 and higher, whether its jobs are counted, how many were taken.
create type txqueue.open_queue as (queue text, jobs integer, kept integer, is_counted boolean, taken integer);

-- How many jobs of a group may run, and where its jobs begin; see group_slots().
create type txqueue.group_slot as (name text, slots integer, paid_in double precision, rank timestamptz, job_id bigint,
    ready_rank timestamptz, ready_job bigint, assignment bigint, looked_at timestamptz, place tid, is_stale boolean,
    oldest_rank timestamptz, oldest_job bigint, holders bigint[],
    rated_type text, tokens double precision);

-- What a claim may look at: the room of the node and its capacity, the limits of its queues, the turns of its jobs, and
-- what can become free.
create type txqueue.opened_claim as (room integer, capacity integer, is_limited boolean, limits txqueue.open_queue[],
    queues text[], turns txqueue.claim_turn[], is_narrow boolean, largest integer, total integer, opens_in double precision,
    last_tenant text);

-- What a step of a claim may take from one queue: the most jobs, the room for them, the heaviest, and whether its jobs
-- are counted.
create type txqueue.step_bounds as (jobs integer, room integer, heaviest integer, is_counted smallint);

-- Jobs that a claim took together: alone has suspects, which run in a process without other jobs.
create type txqueue.claimed_chunk as (lane smallint, assignment bigint, jobs integer, weight bigint, chunk text,
    alone boolean);

-- What a step of a claim found in one lane and queue, and what it took.
create type txqueue.claim_step as (found integer, taken integer, weight bigint, chunks txqueue.claimed_chunk[],
    parked integer, left_job bigint, is_drained boolean, is_whole boolean, is_cut boolean, is_blocked boolean,
    has_suspects boolean, last_rank timestamptz, last_job bigint);

-- Flags and moments are sequences too: every enqueue or completion reads them, and a sequence changes at once, without
-- waiting for a transaction and without a dead row.

create sequence txqueue.asleep minvalue 0;  -- Odd while some master sleeps until a wake-up; above that bit the length of a turn, see try_turn().
create sequence txqueue.assignment;  -- The numbers of assignments: no two chunks of jobs share a fencing token.
create sequence txqueue.awaited minvalue 0;  -- Until when clients wait for jobs to end, in seconds since 1970.
create sequence txqueue.front_number;  -- The numbers of the rows of group_front.
create sequence txqueue.has_late_ends minvalue 0;  -- 1 while late_end may have rows.
create sequence txqueue.has_limits minvalue 0;  -- 1 once a limit or a pause was set.
create sequence txqueue.has_signals minvalue 0;  -- 1 once a signal was sent.
create sequence txqueue.has_rates minvalue 0;  -- 1 once a type with a rate was published.
create sequence txqueue.has_tenants minvalue 0;  -- 1 once a job with a tenant was enqueued.
create sequence txqueue.incarnation as integer;  -- The runs of nodes in functions of the alpha, until these are replaced.
create sequence txqueue.job_id;  -- The numbers of jobs.
create sequence txqueue.lane as smallint minvalue 0 maxvalue 7;  -- The lane for new ready jobs.
create sequence txqueue.open_credit minvalue 0;
        -- How many jobs may be enqueued as assigned to the node that has granted this, and which node that is.
create sequence txqueue.rotated minvalue 0;  -- When a lane was last truncated, in milliseconds since 1970.

-- Jobs ----------------------------------------------------------------------------------------------------------------

-- Every job; the partition it is in is its state.
create table txqueue.job (
    job_id       bigint not null,
    rank         timestamptz not null,
        -- least(not_before - priority * aging, not_after - 9 * aging): smaller goes first.
    not_before   timestamptz not null,
    not_after    timestamptz,
    enqueued_at  timestamptz not null,
    assigned_at  timestamptz,
    started_at   timestamptz,
    finished_at  timestamptz,
    assignment   bigint,  -- Grows at every assignment; with the incarnation it is the token that fences writes.
    node_id      integer,
    incarnation  integer,
    weight       integer not null,
    priority     smallint not null,
    attempt      smallint not null default 0,  -- Runs that ended: done, failed, timed out or died.
    deaths       smallint not null default 0,  -- How many worker processes died while they ran the job.
    lane         smallint not null,
    state        txqueue.job_state not null,
    waiting_for  text collate "C",
    work_type    text collate "C" not null,
    queue        text collate "C" not null,
    "group"      text collate "C",
    options      jsonb,
    payload      jsonb not null,
    error        text,
    result       jsonb,
    tenant       text collate "C",  -- Its tenant; the tenants of a queue take turns by their shares.
    handed       smallint,
        -- Not null if a message, which may be lost, delivers it to its node; 2 for a notification of the database.
    counted      smallint,  -- Not null while it runs under a limit of its queue.
    followed     smallint,  -- Not null if its end affects other jobs or a schedule (see propagate_ends()); 1 if other jobs may read its result.
    fingerprint  text collate "C",
        -- The fingerprint of its last error; for failed jobs and jobs that wait for a retry.
    failed_at    timestamptz,  -- When the last attempt failed.
    progress     jsonb,  -- The last progress that its handler reported: [done, total, note].
    steps        jsonb  -- The steps of a job that older code has ended.
) partition by list (state);

create table txqueue.job_waiting partition of txqueue.job for values in ('waiting');
create table txqueue.job_ready partition of txqueue.job for values in ('ready') partition by list (lane);
create table txqueue.job_assigned partition of txqueue.job for values in ('assigned') partition by list (lane);
create table txqueue.job_done partition of txqueue.job for values in ('done') partition by range (finished_at);
create table txqueue.job_failed partition of txqueue.job for values in ('failed');
create table txqueue.job_cancelled partition of txqueue.job for values in ('cancelled')
    partition by range (finished_at);

do $$
begin
    for lane in 0..7 loop
        execute format('create table txqueue.job_ready_%s partition of txqueue.job_ready for values in (%1$s)', lane);
        execute format('create table txqueue.job_assigned_%s partition of txqueue.job_assigned for values in (%1$s)', lane);
    end loop;
end $$;

create index on txqueue.job_waiting (fingerprint, work_type, failed_at) where fingerprint is not null;
create index on txqueue.job_waiting ("group", rank, job_id) where waiting_for in ('group', 'rate');
create index on txqueue.job_waiting (job_id);
create index on txqueue.job_waiting (not_before) where waiting_for in ('time', 'rate');
create index on txqueue.job_waiting (priority, not_before) where waiting_for in ('time', 'rate') and priority > 4;
create index on txqueue.job_waiting (work_type) where waiting_for = 'type';
create index on txqueue.job_ready ("group", rank, job_id) where "group" is not null;
create index on txqueue.job_ready (job_id);
create index on txqueue.job_ready (queue) where deaths > 1;
create index on txqueue.job_ready (queue, rank, job_id) where tenant is null;
create index on txqueue.job_ready (queue, rank, job_id) where priority >= 7;
create index on txqueue.job_ready (queue, tenant, rank, job_id) where tenant is not null;
create index on txqueue.job_assigned ("group", assignment) where "group" is not null;
create index on txqueue.job_assigned (incarnation, assignment) where handed is not null;
create index on txqueue.job_assigned (job_id);
create index on txqueue.job_assigned (queue) where counted is not null;
create index on txqueue.job_assigned (tenant) where tenant is not null;
create index on txqueue.job_done (job_id);
create index on txqueue.job_failed (fingerprint, work_type, failed_at) where fingerprint is not null;
create index on txqueue.job_failed (job_id);
create index on txqueue.job_cancelled (job_id);

-- What belongs to a job goes with it, whatever deletes it: only statements that name these tables pay for that, and
-- those of txqueue name the lanes. The function is in functions/history.sql.
create function txqueue.forget_deleted() returns trigger language plpgsql as $$ begin return null; end $$;
create trigger forget_deleted after delete on txqueue.job referencing old table as gone for each statement
    execute function txqueue.forget_deleted();
create trigger forget_deleted after delete on txqueue.job_failed referencing old table as gone for each statement
    execute function txqueue.forget_deleted();
create trigger forget_deleted after delete on txqueue.job_done referencing old table as gone for each statement
    execute function txqueue.forget_deleted();
create trigger forget_deleted after delete on txqueue.job_cancelled referencing old table as gone for each statement
    execute function txqueue.forget_deleted();

-- Names, keys and kinds in the next two tables and in unique_job are checked by the functions that write them: PostgreSQL
-- parses a check from its text in every execution of an insert, which would be a quarter of the time of signal().

-- The steps of jobs: what they returned, and what the jobs wait for.
create table txqueue.job_step (
    number       bigint generated always as identity,
    job_id       bigint not null,
    name         text collate "C" not null,
    kind         text not null,
    result       jsonb,
    error        text,  -- Why a wait has no result: its time was over, or its child has failed.
    signal       text collate "C",  -- The name of the awaited signal.
    child        bigint,  -- The job that was enqueued for this step, for whose end it waits.
    until        timestamptz,  -- When a wait ends by itself.
    began_at     timestamptz not null default clock_timestamp(),
    ended_at     timestamptz,  -- Null while the job waits.
    child_type   text,  -- The work type of an ended child, by which its result is read.
    child_state  text,
        -- How its child has ended, if history has dropped that; result and error are those of the child then.
    annotation   text,  -- The type of the value that a wait takes, if its code says so.
    primary key (job_id, name)
);

-- The signals sent to jobs that have not ended.
create table txqueue.job_signal (
    number    bigint generated always as identity,
    job_id    bigint not null,
    name      text collate "C" not null,
    key       text collate "C",  -- A second signal of this key and name is the same one.
    value     jsonb,
    sent_at   timestamptz not null default clock_timestamp(),
    taken_at  timestamptz,  -- When a step of the job has taken it. One without a key is deleted then.
    taken_by  text collate "C",  -- The step that has taken it.
    unique (job_id, name, key)
);

-- The failed attempts of jobs, kept as long as history.
create table txqueue.failed_attempt (
    job_id        bigint not null,
    attempt       smallint not null,
    at            timestamptz not null default clock_timestamp(),
    began         timestamptz,  -- When the run was first reported, or else when the job was assigned.
    node_id       integer,
    error         text,
    error_class   text,  -- The module and name of its class; null if no error of the handler's ended the run.
    log           text,  -- The last entries that the run logged; null for none, and for redacted work.
    restarted_by  text,
        -- The operator that ended the run so that the job starts again, or that gave the attempt back; null for one that failed.
    work_type     text collate "C",
    application   text collate "C",  -- The version of the application that ran it, if a worker has said so.
    fingerprint   text collate "C"  -- The kind of the failure.
) partition by range (at);
create index on txqueue.failed_attempt (job_id);

-- The jobs whose payload a worker could not read; the options of a job name the versions that tried.
create table txqueue.unread_job (
    job_id      bigint primary key,
    since       timestamptz not null,
    until       timestamptz not null,  -- When the job fails, unless a live node may be able to read it.
    checked_at  timestamptz not null default clock_timestamp()
        -- When was last looked whether a node may be able to read it.
);
create index on txqueue.unread_job (checked_at);

-- Which kinds of failure each version of the application has had, by work type; with an empty kind, that the deploy guard
-- has seen it.
create table txqueue.version_failure (
    application  text collate "C" not null,
    work_type    text collate "C" not null,
    fingerprint  text collate "C" not null,
    since        timestamptz not null default clock_timestamp(),
    held_at      timestamptz,  -- When the deploy guard held the type on this version because of this kind.
    released_at  timestamptz,  -- When an operator released it, or an older version failed so, too.
    failed       bigint,  -- How many runs had failed so, when it was held.
    runs         bigint,  -- Of how many.
    error        text,  -- The first line of their last error; of redacted work only the class.
    primary key (application, work_type, fingerprint)
);
create index on txqueue.version_failure (work_type) where held_at is not null;
create index on txqueue.version_failure (work_type, fingerprint);

-- Unique keys, parents and groups -------------------------------------------------------------------------------------

-- The holder of a unique key, and the job that follows it.
create table txqueue.unique_job (
    work_type  text collate "C" not null,
    key        text collate "C" not null,
    job_id     bigint not null,
    next_id    bigint,
    primary key (work_type, key)
);
create index on txqueue.unique_job (job_id);
create index on txqueue.unique_job (next_id) where next_id is not null;

-- Keys that were enqueued once, or as of a moment. No row is deleted by itself.
create table txqueue.seen_key (
    work_type  text collate "C" not null,
    key        text collate "C" not null,
    job_id     bigint not null,
    as_of      timestamptz,
    at         timestamptz not null default now(),
    primary key (work_type, key)
);

-- Children and their parents; the rows of a child are deleted when it no longer waits.
create table txqueue.job_parent (
    child    bigint not null,
    parent   bigint not null,
    any_end  boolean not null,
    ended    text collate "C",
    primary key (parent, child)
);
create index on txqueue.job_parent (child);
create index on txqueue.job_parent (child, parent) where ended is null;

-- Jobs to be looked at again: a transaction that concerned them had not committed when they ended.
create table txqueue.late_end (job_id bigint not null);

-- Groups to check again: their parked jobs were locked when they should have become ready.
create table txqueue.late_group ("group" text not null);

-- The numbers come from a sequence of its own: that of an identity column has no WAL as the table has none, and a
-- promoted standby of PostgreSQL 15 or later may be unable to read it ("bad magic number").

-- Where the jobs of a group begin that has many, for a few seconds. Each is a new row, of which the last counts;
-- without one, all is read.
create unlogged table txqueue.group_front (
    "group"     text collate "C" not null,
    number      bigint not null default nextval('txqueue.front_number'),
    rank        timestamptz not null,
        -- With job_id: no job of the group is parked before it, and none was ready before it at looked_at.
    job_id      bigint not null,
    assignment  bigint not null,  -- No job of the group is assigned under a smaller number.
    noted_at    timestamptz not null,
    looked_at   timestamptz not null  -- When all ready jobs of the group were looked at.
);
create index on txqueue.group_front ("group", number);

-- The jobs that keep their place in their group although they do not run: they wait at a step, or go on after it.
create table txqueue.group_hold (
    job_id   bigint primary key,  -- The job.
    "group"  text not null  -- The group.
);
create index on txqueue.group_hold ("group");

-- What jobs have spent of the rate that their type declares for each of its groups. Each is a new row, of which the last counts.
create table txqueue.spent_rate (
    number      bigint not null generated always as identity,
    work_type   text collate "C" not null,
    "group"     text collate "C" not null,
    spent       double precision not null,  -- The cost that was not paid for at counted_at.
    counted_at  timestamptz not null,
    paid_at     timestamptz not null  -- When all of it is paid for, and the row says nothing.
);
create index on txqueue.spent_rate ("group", work_type, number);
create index on txqueue.spent_rate (paid_at);

-- Schedules -----------------------------------------------------------------------------------------------------------

-- Work that comes again: when, and what is enqueued then.
create table txqueue.schedule (
    schedule_id       bigint generated always as identity primary key,
    name              text collate "C" not null unique check (length(name) between 1 and 200),
    kind              text not null check (kind in ('cron', 'every', 'cooldown')),
    expression        text check ((kind = 'cron') = (expression is not null)),
    zone              text check ((kind = 'cron') = (zone is not null)),
    seconds           double precision check ((kind = 'cron') = (seconds is null))
                      check (seconds between 1 and 366 * 86400),
    jitter            double precision not null default 0 check (jitter between 0 and 366 * 86400),
    catch_up          text not null default 'skip' check (catch_up in ('skip', 'one', 'all')),
    job               jsonb not null,  -- What is enqueued: an element of what enqueue_many() takes.
    work_type         text collate "C" not null generated always as (job ->> 'work_type') stored,
    "group"           text collate "C" generated always as (job ->> 'group') stored,
    tenant            text collate "C" generated always as (job ->> 'tenant') stored,
    condition_table   text,
    condition_column  text check ((condition_table is null) = (condition_column is null)),
    condition_value   text,
    is_declared       boolean not null default false,
    is_active         boolean not null default true,
    next_due          timestamptz default '-infinity',
        -- When it is due; -infinity until a node has computed it, null while the job of a cool-down has not ended.
    last_due          timestamptz,
    last_job          bigint,
    recent            bigint[] not null default '{}',
        -- Its last twenty jobs, the latest first; dues has the moments they were for.
    dues              timestamptz[] not null default '{}',
    error             text,
    until             timestamptz,
    times             integer check (times between 1 and 1000000000),
    runs              bigint not null default 0,
    overlap           text not null default 'allow' check (overlap in ('allow', 'skip')),
        -- Whether a moment at which its last job has not ended gets a job.
    counts_from       text not null default 'end' check (counts_from in ('start', 'end')),
        -- Whether its cool-down counts since the start or the end of its last job.
    put_off           timestamptz  -- The moment of the next job, if that was put off to next_due after an outage.
);
create index on txqueue.schedule (last_job) where kind = 'cooldown';
create index on txqueue.schedule (next_due) where is_active;
create index on txqueue.schedule (seconds) where kind = 'cooldown' and is_active and next_due is null;

-- Worksets ------------------------------------------------------------------------------------------------------------

-- The sets: each has a table of its own, workset_<name>, or is an application's table.
create table txqueue.workset (
    workset_id  integer generated always as identity primary key,
    name        text collate "C" not null unique check (name ~ '^[a-z][a-z0-9_]{0,49}$'),
    work_type   text collate "C" not null,
    source      text,  -- The application's table; null if the items are in a table of its own.
    job         jsonb not null,  -- What each of its jobs is enqueued as.
    size        smallint not null check (size between 1 and 1000),
    batch       integer not null check (batch between 1 and 100000),
    bound       bigint check (bound > 0),
    is_started  boolean not null default false,
    is_cut      boolean not null default true,
    cut_to      text,  -- The last key of the application's table that is in a part.
    expected    bigint not null default 0,
    done        bigint not null default 0,  -- Items counted by jobs that have ended; see workset_slot.
    failed      bigint not null default 0,
    owner       text  -- The login of the application that made it, which alone may change it; null if only nodes have.
);

-- The jobs of the worksets, at most size of each, with what each has counted.
create table txqueue.workset_slot (
    job_id      bigint primary key,
    workset_id  integer not null,
    done        bigint not null default 0,
    failed      bigint not null default 0
) with (fillfactor = 50);

-- What is still to be done, a row for a batch of items; one that is done is deleted.
create table txqueue.workset_part (
    part_id     bigint generated always as identity primary key,
    workset_id  integer not null,
    origin      bigint not null,  -- The part in which the items were added, as in their own table.
    first       text,
    last        text,
    keys        text[],  -- The keys, of origin or of the application's table; null for all from first to last.
    items       integer not null check (items > 0),
    attempt     smallint not null default 0,
    taken       smallint not null default 0,
    not_before  timestamptz not null default clock_timestamp(),
    job_id      bigint
);
create index on txqueue.workset_part (workset_id, job_id) where job_id is not null;
create index on txqueue.workset_part (workset_id, not_before, part_id) where job_id is null;

-- Items that have spent their attempts, kept until an operator acts.
create table txqueue.workset_failed (
    workset_id  integer not null,
    origin      bigint not null,
    key         text not null,
    attempt     smallint not null,
    error       text not null,
    at          timestamptz not null default clock_timestamp(),
    primary key (workset_id, origin, key)
);

-- Nodes ---------------------------------------------------------------------------------------------------------------

-- One row a node; an incarnation is one run of it.
create table txqueue.node_info (
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
    address        text,  -- Where peers connect to it, with the port; null if it listens for none.
    report         jsonb not null default '{}',  -- Its report at the last heartbeat: lag, memory, workers.
    leased_at      timestamptz not null default now(),  -- Since when it has kept its lease without a break.
    vouched_at     timestamptz,  -- Since when only peers renew its lease; null if it does so itself.
    former         integer,  -- The previous incarnation, whose claim may commit late.
    ended_at       timestamptz,  -- When it was declared dead or was stopped; its claim may still commit.
    beats          bigint not null default 0,
        -- Its heartbeats so far: fewer than it has counted if the database was restored to an earlier state.
    type_versions  text[] not null default '{}'  -- The versions of the fields of its work types, as type#version.
) with (fillfactor = 50);
create index on txqueue.node_info (ended_at) where ended_at is not null;
create index on txqueue.node_info (incarnation) where state in ('alive', 'draining');
create index on txqueue.node_info (started_at);

-- Unlogged, as a name lasts no longer than the connections to the server; it is in no replica and in no archived log.

-- The channel on which each run of a node listens for its jobs. Who knows its name can read them, and send others: no
-- role but the owner may read it.
create unlogged table txqueue.node_channel (
    incarnation  integer primary key,  -- The run of the node.
    channel      text not null  -- Its name, which cannot be guessed.
);

-- The policies of the work types that nodes have published.
create table txqueue.work_type (
    work_type     text collate "C" primary key check (work_type ~ '^[A-Za-z0-9_][A-Za-z0-9_.:<>-]{0,199}$'),
    queue         text collate "C" not null,
    priority      smallint not null check (priority between 0 and 9),
    weight        integer not null check (weight > 0),
    policy        jsonb not null default '{}',
    published_at  timestamptz not null default now(),
    schema        jsonb
);

-- Operators -----------------------------------------------------------------------------------------------------------

-- The settings of the whole queue, for all nodes and clients.
create table txqueue.setting (
    only_row       boolean primary key default true check (only_row),
    aging          interval not null default '10 minutes',
        -- The waiting time that weighs as much as one step of priority.
    payload_limit  integer not null default 1048576,  -- The longest payload, in bytes of its JSON text.
    history_kept   interval not null default '30 days',  -- How long done and cancelled jobs are kept.
    identity       uuid not null default gen_random_uuid(),
        -- The identity of this queue, which a client and a node compare.
    archive        text check (archive ~ '^(/|s3://[^/@]+)' and archive !~ '^s3://[^/]*@'),
        -- Where days of history are archived before they are dropped: a folder or s3://bucket/prefix.
    keys_required  boolean not null default false
        -- Whether each job that SQL enqueues must have the keys of its type, and name those that only its class can
        -- compute.
);
insert into txqueue.setting default values;

-- Pauses and limits of queues, groups and tenants.
create table txqueue.control (
    control_id   integer generated always as identity unique,
    kind         text not null check (kind in ('queue', 'group', 'tenant')),
    key          text collate "C" not null check (length(key) between 1 and 1000),
    is_paused    boolean not null default false,
    concurrency  integer check (concurrency > 0),
    rate         double precision check (rate > 0 and rate <= 1e6),
        -- Jobs taken a second; what is left of burst is kept in the sequence bucket_<control_id>.
    burst        integer not null default 1 check (burst between 1 and 1000000),
    share        double precision not null default 1 check (share > 0 and share <= 1e6),
    reserve      double precision not null default 0 check (reserve >= 0 and reserve < 1),
        -- The part of a node's capacity that only priorities from 7 may take from this queue.
    backlog      bigint check (backlog > 0),
        -- How many jobs of this queue may wait or be ready before more are refused.
    is_full      boolean not null default false,  -- Whether the backlog was full at the last check.
    held_until   timestamptz,  -- No job of it starts before, as a handler raised Throttled.
    held_by      bigint,  -- The job whose handler did.
    primary key (kind, key)
);

-- A row for every act of an operator.
create table txqueue.action (
    action_id  bigint generated always as identity primary key,
    at         timestamptz not null default clock_timestamp(),
    who        text not null,
    what       text not null,
    subject    text not null,
    detail     jsonb not null default '{}',
    former     jsonb  -- What its undo restores: a control, or values of jobs; null for none, and after an hour.
);
create index on txqueue.action (at) where former is not null;
create index on txqueue.action using gin ((detail -> 'jobs') jsonb_path_ops);
create index on txqueue.action (subject, action_id);

-- Requests to cancel assigned jobs, each until the job has ended, and to end runs whose jobs were restarted.
create table txqueue.request (
    incarnation  integer not null,
    job_id       bigint not null,
    assignment   bigint not null,
    who          text not null,
    at           timestamptz not null default clock_timestamp(),
    is_restart   boolean not null default false,  -- Whether only the run is to end, and the job starts again.
    primary key (incarnation, job_id, assignment)
);

-- History -------------------------------------------------------------------------------------------------------------

-- Which numbers the jobs of a past day have, so that one is found without a search of all days.
create table txqueue.history_day (
    leaf     text primary key,
    lowest   bigint,
    highest  bigint
);

-- The days of history that have been archived, or are being archived.
create table txqueue.archived (
    leaf         text primary key,
    state        txqueue.job_state not null,
    day          date not null,
    attempt      integer not null default 1,
        -- Grows with every attempt and every change of the day: an older attempt no longer counts.
    location     text,
    jobs         bigint,
    checksum     text,
    verified_at  timestamptz,
    dropped_at   timestamptz,
    lowest       bigint,
    highest      bigint,
    ids          int8multirange,
        -- The numbers of its jobs, from lowest to highest; null if they are not known: archived by an earlier release,
        -- or more than a million ranges.
    hours        jsonb  -- What stats() counts of it by hour and work type; null if an earlier release has archived it.
);
create index on txqueue.archived (day);

-- When the counts of a minute, or later of an hour, were noted.
create table txqueue.minute_mark (
    at        timestamptz primary key,
    seconds   real not null,  -- How long a time before it they are of.
    last_job  bigint not null,
    enqueued  bigint  -- How many jobs were numbered in that time; null after a pause.
);

-- What the jobs of a queue and work type did until a mark.
create table txqueue.minute_counts (
    at         timestamptz not null,
    queue      text collate "C" not null,
    work_type  text collate "C" not null,
    done       integer not null default 0,
    failed     integer not null default 0,  -- Failed attempts, also those that were tried again.
    wait_p50   real,  -- Seconds from when a done job could run to its start: half of them waited less.
    wait_p95   real,
    run_p50    real,
    run_p95    real,
    waiting    integer,  -- How many jobs waited at the mark; null if there were too many to count.
    ready      integer,
    assigned   integer,
    primary key (at, queue, work_type)
);

-- Locks ---------------------------------------------------------------------------------------------------------------

-- Rows for locking: 0 to 16383 for groups, limited queues and tenants, the others for worksets.
create table txqueue.key_lock (key smallint primary key);
insert into txqueue.key_lock select generate_series(0, 16639);

-- Rows that a session locks while it does a duty for all. The duty archive has a holder instead, as it takes many
-- transactions.
create table txqueue.duty (
    name    text primary key,
    holder  uuid,  -- The process that archives, by a random number of its own; null before the first.
    until   timestamptz  -- Until when it has the duty unless it renews it.
);
insert into txqueue.duty values ('history'), ('gauge'), ('rotate'), ('minute'), ('archive');

-- For locking: claims share it, a change of a limit locks it exclusively.
create table txqueue.claiming ();

-- A publication for all tables refuses deletions from a table without an identity: the queue would stop.
do $$
declare
    leaf regclass;
begin
    for leaf in
        select oid from pg_class where relnamespace = 'txqueue'::regnamespace and relkind in ('r', 'p')
           and relpersistence = 'p' and relname not in ('migrating', 'claiming')
           and not exists (select from pg_index where indrelid = pg_class.oid and indisprimary)
    loop
        execute format('alter table %s replica identity full', leaf);
    end loop;
end $$;
