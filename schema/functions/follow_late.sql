-- Looks again at jobs that could not be followed as they ended, and marks those that have not ended: somebody has begun
-- to wait for them. What is held by an open transaction stays for the next look. Returns whether other jobs may run
-- because of it.
create or replace function @schema@.follow_late() returns boolean
language plpgsql volatile
set search_path = @schema@, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_custom_plan
as $$
declare
    late   bigint[];
    marked bigint[];
    locked bigint[];
    these  bigint[];
    ended  text;
    freed  boolean := false;
begin
    with gone as (
        delete from unfollowed where ctid = any (array(select ctid from unfollowed limit 10000 for update skip locked))
        returning job_id
    )
    select array_agg(distinct job_id) into late from gone;
    if late is null then
        -- Whoever notes one in an open transaction has set it, and does not again at the commit.
        if not exists (select from pg_locks where relation = 'unfollowed'::regclass and mode = 'RowExclusiveLock'
                          and pid is distinct from pg_backend_pid()) then
            perform setval('has_unfollowed', 0);
        end if;
        return false;
    end if;
    locked := lock_children(null, late);
    marked := array(select job_id from job where job_id = any (late) and state in ('waiting', 'ready', 'assigned')
                       for update skip locked);
    update job set followed = 1
     where job_id = any (marked) and state in ('waiting', 'ready', 'assigned') and followed is null;
    perform note_unfollowed(array(
        select job_id from job
         where job_id = any (late) and job_id <> all (marked) and state in ('waiting', 'ready', 'assigned')));
    foreach ended in array array['done', 'failed', 'cancelled'] loop
        these := array(select job_id from job where job_id = any (late) and job_id <> all (marked) and state = ended::job_state);
        if these <> '{}' then
            freed := follow(these, ended, locked) or freed;
        end if;
    end loop;
    if freed then
        perform wake();
    end if;
    return freed;
end $$;
