-- Makes children ready whose last parents have ended; cancels children of parents that are not done. Changes
-- only children that the caller has locked by lock_children(). Returns the first of those that may have become ready
-- (its rank is null if there are none), and which were cancelled.
create or replace function txqueue.unblock_children(
    ids bigint[], its_end text, locked bigint[], out freed txqueue.ready_head, out cancelled bigint[])
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
set plan_cache_mode = force_custom_plan
as $$
declare
    children bigint[];
    this     job;
    failed   record;
begin
    cancelled := '{}';
    delete from job_parent where child = any (ids);
    with told as (
        -- Found by parent, because by child all its parents would be read.
        update job_parent set ended = its_end
         where parent = any (ids) and (child = any (locked)) is true and ended is null returning child
    )
    select array_agg(distinct child) into children from told;
    if children is null then
        return;
    end if;
    if its_end <> 'done' then
        for failed in
            select child, min(parent) as parent from job_parent
             where parent = any (ids) and child = any (children) and not any_end group by child
        loop
            delete from job_waiting where job_id = failed.child and waiting_for = 'parents' returning * into this;
            continue when not found;
            continue when has_large_values(this) and fail_if_damaged(this);
            this := cancel_orphan(this, failed.parent, its_end);
            insert into job values (this.*);
            cancelled := cancelled || this.job_id;
        end loop;
    end if;
    for this in
        delete from job_waiting as waiting
         where waiting.job_id = any (children) and waiting.waiting_for in ('parents', 'time') and (
            -- The last ones first, as earlier ones have left dead entries in the index.
            select link.parent from job_parent as link where link.child = waiting.job_id and link.ended is null
             order by link.parent desc limit 1) is null
        returning *
    loop
        continue when has_large_values(this) and fail_if_damaged(this);
        if this.options ? 'steps' then
            -- Beside its calls it may wait for a moment.
            this.not_before := least(this.not_before, clock_timestamp());
        end if;
        this := make_eligible(add_parent_outcomes(this));
        insert into job values (this.*);
        freed := least(freed, row(null, null, this.rank, this.job_id, null, null)::ready_head);
    end loop;
    -- First the children that no longer wait, as the others may have a million parents, which would all be
    -- read.
    children := array(select id from unnest(children) as id
                       where not exists (select from job_waiting where job_id = id and waiting_for in ('parents', 'time')));
    delete from job_parent where child = any (children);
end $$;
