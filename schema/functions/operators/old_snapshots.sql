-- What keeps vacuum from removing dead rows: transactions open for over a minute that hold a snapshot,
-- prepared transactions, replication slots. A role sees others' transactions only as a member of
-- pg_read_all_stats.
create or replace view txqueue.old_snapshots as
select 'transaction' as kind, coalesce(nullif(application_name, ''), usename::text) as name, pid,
       xact_start as since
  from pg_stat_activity
 where datname = current_database() and backend_type = 'client backend' and backend_xmin is not null
   and pid <> pg_backend_pid() and xact_start < clock_timestamp() - interval '1 minute'
union all
select 'prepared transaction', gid, null, prepared
  from pg_prepared_xacts
 where database = current_database() and prepared < clock_timestamp() - interval '1 minute'
union all
select 'replication slot', slot_name::text, active_pid, null
  from pg_replication_slots
 where xmin is not null and not active;
comment on view txqueue.old_snapshots is 'What keeps vacuum from removing dead rows.';
