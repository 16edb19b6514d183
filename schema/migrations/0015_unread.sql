-- serves: 7
-- Which versions of their work types nodes have, and the jobs that no worker could read so far.

alter table txqueue.node_info add column type_versions text[] not null default '{}';
comment on column txqueue.node_info.type_versions is 'The versions of the fields of its work types, as type#version.';

create table txqueue.unread_job (
    job_id      bigint primary key,
    since       timestamptz not null,
    until       timestamptz not null,
    checked_at  timestamptz not null default clock_timestamp()
);
create index on txqueue.unread_job (checked_at);
comment on table txqueue.unread_job is 'The jobs whose payload a worker could not read; the options of a job name the versions that tried.';
comment on column txqueue.unread_job.until is 'When the job fails, unless a live node may be able to read it.';
comment on column txqueue.unread_job.checked_at is 'When was last looked whether a node may be able to read it.';
