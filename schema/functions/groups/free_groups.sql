-- Makes as many of the oldest parked jobs of each group ready as may run, minus those already ready before
-- them, and all that hold their place; called when a job of the group ends or is returned. If the group's rate is used up, its oldest parked
-- job waits for the next token instead, and the rest follow it. Keys are locked in sorted order, and only
-- their holders touch parked rows, so no wake-up is lost. Returns the first of the jobs made ready; its rank is null
-- if there are none.
create or replace function txqueue.free_groups(groups text[]) returns txqueue.ready_head
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    names text[] := array(select distinct name from unnest(groups) as name);
    its   record;
    this  job;
    tids  tid[];
    freed ready_head;
begin
    perform lock_keys(array(select distinct key_of(name) from unnest(names) as name));
    for its in
        select each.*, most.jobs as most
          from group_slots(names) as slots,
               lateral (select slots.name, slots.paid_in, slots.rank, slots.job_id, slots.oldest_rank, slots.holders,
                            case when slots.slots < 2 then slots.slots else slots.slots - (
                            select count(*) from (
                                select from job_ready
                                 where "group" = slots.name and (rank, job_id) >= (slots.ready_rank, slots.ready_job)
                                   and (rank, job_id) < (slots.oldest_rank, slots.oldest_job)
                                   and (job_id = any (slots.holders)) is not true
                                 limit slots.slots) as already)
                        end as room) as each,
               lateral (select case when room > 0 then room
                                    when each.paid_in is not null and not exists (
                                         select from job_waiting where waiting_for = 'rate' and "group" = slots.name) then 1
                                    else 0 end as jobs) as most
         where most.jobs > 0 or each.holders is not null
    loop
        -- Locked first, by a separate statement, as a session that marks a parked job moves its row. Rows
        -- locked by another transaction, perhaps an application's, are left for free_late_groups().
        tids := array(select ctid from job_waiting
                       where waiting_for in ('group', 'rate') and (waiting_for = 'group' or its.room > 0) and "group" = its.name
                         and (rank, job_id) >= (its.rank, its.job_id) and (job_id = any (its.holders)) is not true
                       order by rank, job_id limit its.most for update skip locked);
        if cardinality(tids) < its.room and exists (
                select from job_waiting where waiting_for = 'group' and "group" = its.name
                   and (rank, job_id) >= (its.rank, its.job_id) and ctid <> all (tids)) then
            insert into late_group values (its.name);
        end if;
        if its.holders is not null then
            -- Parked while the group was paused.
            tids := tids || array(select ctid from job_waiting where job_id = any (its.holders) and waiting_for = 'group'
                                     for update skip locked);
            insert into late_group
            select its.name from job_waiting
             where job_id = any (its.holders) and waiting_for = 'group' and ctid <> all (tids) limit 1;
        end if;
        for this in delete from job_waiting where ctid = any (tids) returning * loop
            continue when has_large_values(this) and fail_if_damaged(this);
            if its.room > 0 or this.job_id = any (its.holders) then
                this.state := 'ready';
                this.waiting_for := null;
                this.lane := current_lane();
                freed := least(freed, row(null, null, this.rank, this.job_id, null, null)::ready_head);
            else
                this.waiting_for := 'rate';
                this.not_before := clock_timestamp() + make_interval(secs => its.paid_in);
            end if;
            insert into job values (this.*);
        end loop;
    end loop;
    return freed;
end $$;
