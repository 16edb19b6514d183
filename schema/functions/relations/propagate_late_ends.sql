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
    resumed bigint[] := '{}';
    held    bigint[] := '{}';
    freed   boolean := false;
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
    if has_signals() then
        -- First, as most of those that wait for a signal need nothing of what follows.
        resumed := resume_signalled(late);
    end if;
    late := array(select unnest(late) except select unnest(resumed));
    if late <> '{}' then
        select * into held, freed from propagate_noted(late);
    end if;
    delete from late_end where ctid = any (places) and job_id <> all (held);
    if freed or resumed <> '{}' then
        perform wake_masters(1000);
        return true;
    end if;
    return false;
end $$;
