-- serves: 7
-- Jobs that wait at a step may keep their place in their group.

create table txqueue.group_hold (
    job_id  bigint primary key,
    "group" text not null
);
create index group_hold_group_idx on txqueue.group_hold ("group");
comment on table txqueue.group_hold is
    'The jobs that keep their place in their group although they do not run: they wait at a step, or go on after it.';
comment on column txqueue.group_hold.job_id is 'The job.';
comment on column txqueue.group_hold."group" is 'The group.';

alter type txqueue.group_slot add attribute holders bigint[];
