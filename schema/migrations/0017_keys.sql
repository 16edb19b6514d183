-- serves: 7
-- Keys of jobs that the database computes from their payloads.

alter table txqueue.setting add column keys_required boolean not null default true;
comment on column txqueue.setting.keys_required is
    'Whether a job of a class that computes its group, tenant or unique key itself must name it when SQL enqueues it.';
