-- Locks keys until the end of the transaction, in sorted order, as all sessions that wait for keys do. Keys
-- are rows: a login without rights on the schema cannot lock them, and they use no slots of the server's lock
-- table.
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
