-- How many done and cancelled jobs there are, by the server's own estimate: exact within a second
-- or so, and free. After a crash the server counts from nothing, until autovacuum has looked at the tables; then
-- what autovacuum has found before is closer.
create or replace view txqueue.history_size as
select kind.state, coalesce(sum(greatest(stats.n_live_tup, leaf_table.reltuples, 0)), 0)::bigint as jobs
  from (values ('done', 'txqueue.job_done'::regclass), ('cancelled', 'txqueue.job_cancelled'::regclass))
           as kind (state, parent)
  left join pg_inherits as leaf on leaf.inhparent = kind.parent
  left join pg_class as leaf_table on leaf_table.oid = leaf.inhrelid
  left join pg_stat_all_tables as stats on stats.relid = leaf.inhrelid
 group by kind.state;
comment on view txqueue.history_size is 'The estimated number of jobs in history.';
