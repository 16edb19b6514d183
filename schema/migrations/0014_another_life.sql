-- serves: 7
-- For nodes that detect a database restored to an earlier state.

alter table txqueue.node_info add column beats bigint not null default 0;
comment on column txqueue.node_info.beats is 'Its heartbeats so far: fewer than it has counted if the database was restored to an earlier state.';
