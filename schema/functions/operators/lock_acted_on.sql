-- Locks the jobs in some states on which an operator acts, with what a change of them needs: the unique keys of
-- jobs to reopen, the children of those and of jobs to end, and the keys of groups. Returns the locked jobs and
-- the children. Jobs whose rows are damaged are not among them.
--
-- A transaction of an application may hold the row of a job, such as one that coalesce_into() has ended, until
-- its completion, which needs children and keys. So this never waits for a row while it holds a lock: it frees
-- all, waits for that row alone, and starts over. A caller that may not wait, as it holds other locks, gets only
-- the jobs for which all is free.
create or replace function txqueue.lock_acted_on(
    ids bigint[], states job_state[], to_reopen bigint[] default '{}', to_end bigint[] default '{}', may_wait boolean default true,
    out locked bigint[], out children bigint[])
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    sound   constant bigint[] := sound_jobs(ids, states);
    groups  text[];
    missing bigint;
begin
    ids := sound;
    to_reopen := array(select unnest(to_reopen) intersect select unnest(sound));
    to_end := array(select unnest(to_end) intersect select unnest(sound));
    loop
        begin
            perform retake_unique_keys(to_reopen, states);
            children := lock_children(to_reopen, to_end, may_wait);
            groups := lock_groups(ids, may_wait);
            locked := array(
                select job_id from job
                 where job_id = any (ids) and state = any (states)
                   and ("group" is null or "group" = any (groups) or state not in ('waiting', 'ready'))
                 order by job_id for update skip locked);
            missing := (select min(job_id) from job
                         where job_id = any (ids) and state = any (states) and job_id <> all (locked));
            if not may_wait then
                locked := array(select id from unnest(locked) as id where id <> all (find_held_children(locked, children)));
                exit;
            end if;
            exit when missing is null;
            raise exception using errcode = 'TXQ05';
        exception when sqlstate 'TXQ05' then
            null;
        end;
        begin
            perform from job where job_id = missing and state = any (states) for update;
            raise exception using errcode = 'TXQ05';
        exception when sqlstate 'TXQ05' then
            null;
        end;
    end loop;
end $$;
