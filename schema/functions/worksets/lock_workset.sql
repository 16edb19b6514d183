-- Locks the name of a workset until the end of the transaction, which may be an application's, so these keys
-- are separate from those of groups. Waits for another session or not, as the caller chooses; returns whether
-- it has the lock.
create or replace function txqueue.lock_workset(its_name text, may_wait boolean) returns boolean
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    its_key constant smallint := 16384 + (hashtextextended(its_name, 839) & 255);
begin
    if may_wait then
        perform from key_lock where key = its_key for update;
    else
        perform from key_lock where key = its_key for update skip locked;
    end if;
    return found;
end $$;
