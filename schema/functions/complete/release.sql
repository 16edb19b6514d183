-- Returns jobs of a node's assignments to the queue: of the named assignments, of all others, or only the
-- jobs named by number; with spared, not jobs that were handed over by a message that may be on its way. died
-- means that the process that held them is dead. Returns how many; if that equals at_most, there may be more;
-- jobs that were running go first. It waits for no lock: a stopped process may hold a job, or its group's key, between its
-- completion and its commit, and any session may lock a row. Such jobs are skipped, and returned by rescue() or by the
-- node once they are free; such groups are recorded for free_late_groups(). Without at_most, the jobs that operators have
-- cancelled end at once.
create or replace function txqueue.release(
    its_incarnation integer, assignments bigint[], died boolean, all_but boolean default false, ids bigint[] default null,
    spare_handed boolean default false, at_most integer default null)
returns integer
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    this     job;
    released integer := 0;
    groups   text[] := '{}';
    keys     smallint[];
    -- The jobs among which some are to be cancelled; null if none is.
    asked_of bigint[] := case when at_most is null and exists (select from request) then '{}' end;
begin
    for this in
        delete from job_assigned
         where incarnation = its_incarnation and job_id = any (array(
                select few.job_id from job_assigned as few
                 where few.incarnation = its_incarnation and (few.assignment = any (assignments)) <> all_but
                   and (ids is null or few.job_id = any (ids)) and (few.handed is null or not spare_handed)
                 order by few.started_at limit at_most for update skip locked))
        returning *
    loop
        if not (has_large_values(this) and fail_if_damaged(this)) then
            perform give_back(this, died);
        end if;
        released := released + 1;
        groups := groups || this."group";
        asked_of := asked_of || this.job_id;
    end loop;
    -- A released job may have caused the parking of a job of its group that ranks before it.
    groups := array_remove(groups, null);
    if groups <> '{}' then
        keys := try_keys(array(select distinct key_of(name) from unnest(groups) as name));
        insert into late_group select distinct name from unnest(groups) as name where key_of(name) <> all (keys);
        groups := array(select name from unnest(groups) as name where key_of(name) = any (keys));
    end if;
    if groups <> '{}' then
        perform free_groups(groups);
    end if;
    if asked_of <> '{}' then
        -- Before any claim can take them again.
        perform cancel_returned(its_incarnation, asked_of);
    end if;
    if released > 0 then
        perform wake_masters(released);
    end if;
    return released;
end $$;
