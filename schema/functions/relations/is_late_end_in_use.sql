-- Whether another open transaction has recorded late ends, or is processing them.
create or replace function txqueue.is_late_end_in_use() returns boolean
language sql volatile
set search_path = txqueue, pg_temp
as $$
    select exists (select from pg_locks
                    where relation = 'late_end'::regclass and mode in ('RowExclusiveLock', 'RowShareLock')
                      and pid is distinct from pg_backend_pid())
$$;
