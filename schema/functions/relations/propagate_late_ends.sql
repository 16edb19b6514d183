-- Processes the recorded late ends: updates the followers of ended jobs, and marks jobs that have not ended
-- as followed. A job to which a signal was sent is recorded too, and goes on if it waits for that. Records locked by an open transaction stay for the next call, which may be many times a
-- second: it costs little and leaves no dead row. Returns whether other jobs may have become ready.
create or replace function txqueue.propagate_late_ends() returns boolean
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_custom_plan
as $$
declare
    places  tid[];
    late    bigint[];
    held    bigint[];
    marked  bigint[];
    resumed bigint[] := '{}';
    locked  bigint[];
    these   bigint[];
    ended   text;
    freed   boolean;
begin
    select array_agg(ctid), array_agg(job_id) into places, late
      from (select ctid, job_id from late_end limit 10000 for update skip locked) as noted;
    if late is null then
        -- A session that records a late end has set the flag in its open transaction, and does not set it
        -- again at the commit.
        if not is_late_end_in_use() then
            perform setval('has_late_ends', 0);
            -- Another session may have set the flag, and even committed, between the check and this.
            if is_late_end_in_use() or exists (select from late_end) then
                perform setval('has_late_ends', 1);
            end if;
        end if;
        return false;
    end if;
    -- A claim or a heartbeat calls this, with locks for which others wait.
    locked := lock_children(null, late, may_wait => false);
    held := find_held_keys(late) || find_held_children(late, locked);
    late := array(select distinct id from unnest(late) as id where id <> all (held));
    if late = '{}' then
        return false;
    end if;
    marked := array(select job_id from job where job_id = any (late) and state in ('waiting', 'ready', 'assigned')
                       for update skip locked);
    late := array(select unnest(late) except select unnest(marked));
    if has_signals() then
        resumed := resume_signalled(marked);
    end if;
    freed := resumed <> '{}';
    update job set followed = 1
     where job_id = any (array(select unnest(marked) except select unnest(resumed)))
       and state in ('waiting', 'ready', 'assigned') and followed is null;
    perform wait_for_new_ends(marked, locked);
    held := held || array(select job_id from job where job_id = any (late) and state in ('waiting', 'ready', 'assigned'));
    delete from late_end where ctid = any (places) and job_id <> all (held);
    late := array(select unnest(late) except select unnest(held));
    foreach ended in array array['done', 'failed', 'cancelled'] loop
        these := array(select job_id from job where job_id = any (late) and state = ended::job_state);
        if these <> '{}' then
            freed := (propagate_ends(these, ended, locked)).rank is not null or freed;
        end if;
    end loop;
    if freed then
        perform wake_masters(1000);
    end if;
    return freed;
end $$;
