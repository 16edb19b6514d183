-- Locks a name of a workset to the end of the transaction, which may be an application's: its keys are no group's.
-- Returns whether it did; if another session has it, either waits or does not.
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
