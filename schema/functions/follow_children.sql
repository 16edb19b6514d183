-- Lets the jobs go that waited for some others, the last of which have ended now; cancels those that waited for
-- them to be done, if they are not: only those that the caller has locked, see lock_children(). Returns whether some may
-- run because of it, and which were cancelled.
create or replace function @schema@.follow_children(
    ids bigint[], its_end text, locked bigint[], out freed boolean, out cancelled bigint[])
language plpgsql volatile
set search_path = @schema@, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_custom_plan
as $$
declare
    children bigint[];
    this     job;
    failed   record;
begin
    freed := false;
    cancelled := '{}';
    delete from job_parent where child = any (ids);
    with told as (
        update job_parent set ended = its_end where parent = any (ids) and child = any (locked) and ended is null returning child
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
            this := orphaned(this, failed.parent, its_end);
            insert into job values (this.*);
            cancelled := cancelled || this.job_id;
        end loop;
    end if;
    for this in
        delete from job_waiting as waiting
         where waiting.job_id = any (children) and waiting.waiting_for = 'parents' and not exists (
            select from job_parent where child = waiting.job_id and job_parent.ended is null)
        returning *
    loop
        this := let_go(with_ends(this));
        insert into job values (this.*);
        freed := true;
    end loop;
    delete from job_parent where child = any (children) and not exists (
        select from job_waiting where job_id = job_parent.child and waiting_for = 'parents');
end $$;
