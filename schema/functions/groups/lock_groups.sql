-- Locks the keys of the groups of some jobs in sorted order, as every statement that changes a parked job
-- must: otherwise a completion that waits for its row would lose its wake-up. Returns the groups; jobs of
-- other groups, such as a job retried meanwhile, must not be changed. A caller that may not wait gets the groups
-- whose keys are free.
create or replace function txqueue.lock_groups(ids bigint[], may_wait boolean) returns text[]
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
declare
    groups text[] := array(
        select distinct "group" from job
         where job_id = any (ids) and state in ('waiting', 'ready', 'assigned') and "group" is not null);
    keys   smallint[] := array(select distinct key_of(name) from unnest(groups) as name);
begin
    if not may_wait then
        keys := try_keys(keys);
        return array(select name from unnest(groups) as name where key_of(name) = any (keys));
    end if;
    perform lock_keys(keys);
    return groups;
end $$;
