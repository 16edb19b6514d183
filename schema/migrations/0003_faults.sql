-- For rescue after asking peers, for expiry and for back-pressure.

alter table txqueue.node_info add column leased_at timestamptz not null default now();
alter table txqueue.node_info add column vouched_at timestamptz;
alter table txqueue.node_info add column former integer;
comment on column txqueue.node_info.leased_at is 'Since when it has kept its lease without a break.';
comment on column txqueue.node_info.vouched_at is 'Since when only peers renew its lease; null if it does so itself.';
comment on column txqueue.node_info.former is 'The previous incarnation, whose claim may commit late.';

alter table txqueue.control add column backlog bigint check (backlog > 0);
alter table txqueue.control add column is_full boolean not null default false;
comment on column txqueue.control.backlog is 'How many jobs may wait in this queue before more are refused.';
comment on column txqueue.control.is_full is 'Whether the backlog was full at the last check.';
