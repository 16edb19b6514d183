-- Which of some jobs of a node cannot end now, as another session has locked their rows, their children or the keys of
-- their groups. It waits for nothing.
create or replace function txqueue.held_jobs(its_incarnation integer, ids bigint[]) returns bigint[]
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    free     constant bigint[] := array(
        select job_id from job_assigned where job_id = any (ids) and incarnation = its_incarnation for update skip locked);
    children constant bigint[] := lock_children(free, free, false);
    groups   constant text[] := lock_groups(free, false);
begin
    return array(
        select job_id from job_assigned where job_id = any (ids) and incarnation = its_incarnation
        except
        select job_id from job_assigned where job_id = any (free) and ("group" is null or "group" = any (groups))
        union
        select unnest(find_held_children(free, children)));
end $$;
