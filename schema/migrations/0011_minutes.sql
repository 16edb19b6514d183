-- serves: 7
-- What happened in each minute, for charts: one node at a time notes it, from the ends of tables that grow at
-- their end. After two days minutes are merged into hours.

create table txqueue.minute_mark (
    at        timestamptz primary key,
    seconds   real not null,
    last_job  bigint not null,
    enqueued  bigint
);
comment on table txqueue.minute_mark is 'When the counts of a minute, or later of an hour, were noted.';
comment on column txqueue.minute_mark.seconds is 'How long a time before it they are of.';
comment on column txqueue.minute_mark.enqueued is 'How many jobs were numbered in that time; null after a pause.';

create table txqueue.minute_counts (
    at         timestamptz not null,
    queue      text collate "C" not null,
    work_type  text collate "C" not null,
    done       integer not null default 0,
    failed     integer not null default 0,
    wait_p50   real,
    wait_p95   real,
    run_p50    real,
    run_p95    real,
    waiting    integer,
    ready      integer,
    assigned   integer,
    primary key (at, queue, work_type)
);
comment on table txqueue.minute_counts is 'What the jobs of a queue and work type did until a mark.';
comment on column txqueue.minute_counts.failed is 'Failed attempts, also those that were tried again.';
comment on column txqueue.minute_counts.wait_p50 is 'Seconds from when a done job could run to its start: half of them waited less.';
comment on column txqueue.minute_counts.waiting is 'How many jobs waited at the mark; null if there were too many to count.';

insert into txqueue.duty values ('minute') on conflict do nothing;
