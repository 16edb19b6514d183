-- Locks keys to the end of the transaction, in sorted order, as all do that wait for any. They are rows: no login
-- without rights on the schema can take them, and however many they are, they fill no table of locks.
create or replace function txqueue.lock_keys(keys smallint[]) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
begin
    perform from key_lock where key = any (keys) order by key for update;
end $$;
