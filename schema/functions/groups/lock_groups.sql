-- Locks the keys of the groups of some jobs, in the order in which all do, as every statement that touches a parked job
-- must: the completion that waits for its row would lose its wake-up otherwise. Returns the groups: jobs of others, such as
-- one that was run again meanwhile, must be left alone.
create or replace function txqueue.lock_groups(ids bigint[]) returns text[]
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
declare
    groups text[] := array(
        select distinct "group" from job
         where job_id = any (ids) and state in ('waiting', 'ready', 'assigned') and "group" is not null);
begin
    perform lock_keys(array(select distinct key_of(name) from unnest(groups) as name));
    return groups;
end $$;
