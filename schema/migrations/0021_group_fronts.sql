-- serves: 7
-- Where the jobs of a group begin, so that what an old snapshot keeps of its ended jobs is not read for each job.

create unlogged table txqueue.group_front (
    "group"    text collate "C" not null,
    number     bigint generated always as identity,
    rank       timestamptz not null,
    job_id     bigint not null,
    assignment bigint not null,
    noted_at   timestamptz not null,
    looked_at  timestamptz not null
);
create index on txqueue.group_front ("group", number);
comment on table txqueue.group_front is
    'Where the jobs of a group begin that has many, for a few seconds. Each is a new row, of which the last counts; without one, all is read.';
comment on column txqueue.group_front.rank is 'With job_id: no job of the group is parked before it, and none was ready before it at looked_at.';
comment on column txqueue.group_front.looked_at is 'When all ready jobs of the group were looked at.';
comment on column txqueue.group_front.assignment is 'No job of the group is assigned under a smaller number.';

create type txqueue.group_slot as (
    name text, slots integer, paid_in double precision, rank timestamptz, job_id bigint, ready_rank timestamptz, ready_job bigint,
    assignment bigint, looked_at timestamptz, place tid, is_stale boolean, oldest_rank timestamptz, oldest_job bigint);
comment on type txqueue.group_slot is 'How many jobs of a group may run, and where its jobs begin; see group_slots().';

drop index txqueue.job_assigned_group_idx;
create index on txqueue.job_assigned ("group", assignment) where "group" is not null;
