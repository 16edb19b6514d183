-- Updates the followers of jobs that end with one outcome (done, failed or cancelled), in the transaction
-- that ends them. Called only for jobs that are marked as followed, and those that end because of them.
-- Returns the first of the other jobs that may have become ready; its rank is null if there are none. A caller that calls it more than once in a transaction
-- must lock the children first by lock_children(), and pass them.
create or replace function txqueue.propagate_ends(ids bigint[], ended text, locked bigint[] default null)
returns txqueue.ready_head
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    freed ready_head;
    heirs record;
begin
    if locked is null then
        locked := lock_children(case ended when 'done' then ids end, case when ended <> 'done' then ids end);
    end if;
    loop
        -- A job that is not done may be retried, and then takes those that were sent before.
        if ended = 'done' and has_signals() then
            delete from job_signal where job_id = any (ids);
        end if;
        perform start_cooldowns(ids, ended);
        freed := least(freed, pass_on_unique_keys(ids));
        heirs := unblock_children(ids, ended, locked);
        freed := least(freed, heirs.freed);
        ids := heirs.cancelled;
        ended := 'cancelled';
        exit when ids = '{}';
    end loop;
    return freed;
end $$;
