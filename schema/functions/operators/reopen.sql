-- Opens jobs again: failed and cancelled ones start over with all attempts, and jobs that wait for a time run
-- now, or all of them at a given moment. Returns their numbers. The rule for those that are related to them, the
-- same for a retry and a postponement: an opened job has not ended.
--   - It waits for those of its parents that have not ended, and is not opened if one of them can never be done.
--   - Children that still wait, such as a batch's callback, also wait for its new end, even if its former end came
--     before they were enqueued. A child that has run, or was cancelled, stays as it is.
--   - It takes its unique key again, and is not opened if another job holds the key.
create or replace function txqueue.reopen(ids bigint[], at timestamptz default null) returns bigint[]
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    this     job;
    again    job;
    ended    job[] := '{}';
    reopened bigint[] := '{}';
    states   constant job_state[] := case when at is null then '{waiting,failed,cancelled}' else '{waiting,failed}' end;
    locks    constant record := lock_acted_on(ids, states, to_reopen => ids);
begin
    -- A request to cancel an earlier run must not end the new one.
    delete from request where job_id = any (ids) and not is_restart and not exists (
        select from job_assigned as held where held.job_id = request.job_id and held.assignment = request.assignment);
    perform set_config('queue_rows.are_moved', 'on', true);
    for this in
        delete from job
         where job_id = any (locks.locked) and state = any (states)
           and (state <> 'waiting' or waiting_for = 'time' or waiting_for = 'version' and at is null)
        returning *
    loop
        if this.state = 'waiting' then
            this := reset_for_retry(this, at);
            insert into job values (this.*);
            reopened := reopened || this.job_id;
        else
            ended := ended || this;
        end if;
    end loop;
    -- Parents come before their children, which wait for the new runs.
    for this in select * from unnest(ended) as each order by each.job_id loop
        if holds_unique_key(this) then
            again := hold_for_parents_again(reset_for_retry(this, at));
            if again.state <> 'cancelled' then
                reopened := reopened || this.job_id;
                this := restore_steps(again);
            end if;
        end if;
        insert into job values (this.*);
    end loop;
    perform wait_for_new_ends(reopened, locks.children);
    return reopened;
end $$;
