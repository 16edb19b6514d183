-- serves: 7
-- Clients that do not know the keys of a type, as those of an older release of the application, are not refused.

alter table txqueue.setting alter column keys_required set default false;
update txqueue.setting set keys_required = false;
comment on column txqueue.setting.keys_required is
    'Whether each job that SQL enqueues must have the keys of its type, and name those that only its class can compute.';
