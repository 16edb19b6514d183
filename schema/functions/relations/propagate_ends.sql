-- Updates the followers of jobs that end with one outcome (done, failed or cancelled), in the transaction
-- that ends them. Called only for jobs that are marked as followed, and those that end because of them.
-- Returns whether other jobs may have become ready. A caller that calls it more than once in a transaction
-- must lock the children first by lock_children(), and pass them.
create or replace function txqueue.propagate_ends(ids bigint[], ended text, locked bigint[] default null) returns boolean
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    freed boolean := false;
    heirs record;
begin
    if locked is null then
        locked := lock_children(case ended when 'done' then ids end, case when ended <> 'done' then ids end);
    end if;
    loop
        freed := start_cooldowns(ids, ended) or freed;
        freed := pass_on_unique_keys(ids) or freed;
        heirs := unblock_children(ids, ended, locked);
        freed := heirs.freed or freed;
        ids := heirs.cancelled;
        ended := 'cancelled';
        exit when ids = '{}';
    end loop;
    return freed;
end $$;
