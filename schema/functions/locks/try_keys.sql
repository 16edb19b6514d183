-- Locks those of some keys that no other session has, without waiting; returns them.
create or replace function txqueue.try_keys(keys smallint[]) returns smallint[]
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
begin
    return array(select key from key_lock where key = any (keys) order by key for update skip locked);
end $$;
