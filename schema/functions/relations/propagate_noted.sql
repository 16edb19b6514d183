-- Processes records of late ends for propagate_late_ends(). Returns the jobs whose records must stay, as a transaction
-- holds what they need, and whether other jobs may have become ready.
create or replace function txqueue.propagate_noted(late bigint[], out held bigint[], out freed boolean)
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_custom_plan
as $$
declare
    marked  bigint[];
    resumed bigint[] := '{}';
    locked  bigint[];
    these   bigint[];
    ended   text;
begin
    freed := false;
    -- A claim or a heartbeat calls this, with locks for which others wait.
    locked := lock_children(null, late, may_wait => false);
    held := find_held_keys(late) || find_held_children(late, locked);
    late := array(select unnest(late) except select unnest(held));
    if late = '{}' then
        return;
    end if;
    marked := array(select job_id from job where job_id = any (late) and state in ('waiting', 'ready', 'assigned')
                       for update skip locked);
    late := array(select unnest(late) except select unnest(marked));
    if has_signals() then
        -- Those that have begun to wait since propagate_late_ends() looked.
        resumed := resume_signalled(marked);
        freed := resumed <> '{}';
    end if;
    update job set followed = 1
     where job_id = any (array(select unnest(marked) except select unnest(resumed)))
       and state in ('waiting', 'ready', 'assigned') and followed is null;
    perform wait_for_new_ends(marked, locked);
    held := held || array(select job_id from job where job_id = any (late) and state in ('waiting', 'ready', 'assigned'));
    late := array(select unnest(late) except select unnest(held));
    foreach ended in array array['done', 'failed', 'cancelled'] loop
        these := array(select job_id from job where job_id = any (late) and state = ended::job_state);
        if these <> '{}' then
            freed := (propagate_ends(these, ended, locked)).rank is not null or freed;
        end if;
    end loop;
end $$;
