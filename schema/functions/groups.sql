-- Groups: what programs call comes first, then its steps and what they use.

-- Parks the jobs of busy groups among those that its caller has locked in one ready lane, and returns the
-- rows to take: all without a group, and of each group as many of the oldest as may run, if no older one is
-- ready or parked elsewhere. Those that hold their place in a group that is not paused are all taken. It also parks the ready jobs behind those that it parks, up to most_parked with
-- those, so that later claims do not read them. A group whose key another session holds is left for the next
-- claim. One function per lane, so that its plans are kept.
create or replace function txqueue.admit_groups_0(locked tid[], most_parked integer, out taken tid[], out parked integer)
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
declare
    held    text[];
    keys    smallint[];
    types   text[];
    slots   group_slot[];
    open    text[];
    idle    text[];
    rated   text[];
    grouped integer;
    doomed  tid[];
    passed  tid[];
    -- The first jobs of full groups that are parked, and those that are to be noted as the first of their groups.
    full_       text[];
    full_ranks  timestamptz[];
    full_ids    bigint[];
    begun       group_slot[];
    begun_ranks timestamptz[];
    begun_ids   bigint[];
begin
    select array_agg(keys.name), array_agg(keys.work_type)
      into held, types
      -- Offset 0 here and below, as in assign().
      from (select "group" as name, min(work_type) as work_type
              from (select "group", work_type from job_ready_0 where ctid = any (locked) offset 0) as mine
             where "group" is not null group by "group" limit 1000) as keys;
    keys := try_keys(array(select distinct key_of(name) from unnest(held) as name));
    select array_agg(its.name), array_agg(its.work_type) into held, types
      from unnest(held, types) as its (name, work_type) join unnest(keys) as key on key = key_of(its.name);
    if has_rates() then
        -- Of types with a rate, that of the first job counts; a job of another one waits for the next claim.
        rated := array(select work_type from work_type where policy ? 'group_rate');
        select array_agg(coalesce(first.work_type, its.work_type) order by its.place) into types
          from unnest(held, types) with ordinality as its (name, work_type, place)
          left join (select distinct on (mine."group") mine."group", mine.work_type
                       from (select "group", work_type, rank, job_id from job_ready_0 where ctid = any (locked) offset 0) as mine
                      where mine.work_type = any (rated)
                      order by mine."group", mine.rank, mine.job_id) as first on first."group" = its.name;
    end if;
    select array_agg(its), array_agg(its.name) filter (where its.slots > 0 or its.paid_in is not null)
      into slots, open
      from group_slots(held, types) as its;
    with numbered as (
        select ready.tid, ready."group", ready.rank, ready.job_id, its, held.is_holder, row_number() over mine as number,
               cost.own, sum(cost.own) over mine as spent,
               first_value(ready.rank) over mine as first_rank, first_value(ready.job_id) over mine as first_job
          from (select ctid as tid, "group", rank, job_id, work_type, weight from job_ready_0 where ctid = any (locked) offset 0) as ready
               left join unnest(slots) as its on its.name = ready."group"
               cross join lateral (select (ready.job_id = any (its.holders)) is true as is_holder) as held
               cross join lateral (
                   select case when ready.work_type = its.rated_type then ready.weight
                               when its.rated_type is not null and ready.work_type = any (rated) then 1e18 else 0 end as own) as cost
        window mine as (partition by ready."group", held.is_holder order by ready.rank, ready.job_id)
    ), judged as materialized (
        select mine.*, (mine."group" is null or mine.is_holder or (mine.number <= (mine.its).slots
               -- A job starts while a token is left, and takes as many as it costs.
               and (mine.spent = 0 or mine.spent - greatest(0, least(mine.own, 1e6) - 1) <= (mine.its).tokens)
               -- Scalar subqueries, which the planner does not turn into a join: with old statistics of small tables,
               -- a join would read all rows that a held snapshot keeps, for each claim.
               and (select true from job_ready as other where other."group" = mine."group"
                       and (other.rank, other.job_id) >= ((mine.its).ready_rank, (mine.its).ready_job)
                       and (other.rank, other.job_id) < (mine.first_rank, mine.first_job)
                       and (other.job_id = any ((mine.its).holders)) is not true limit 1) is null
               and (select true from job_waiting as other where other."group" = mine."group" and other.waiting_for = 'group'
                       and (other.rank, other.job_id) >= ((mine.its).rank, (mine.its).job_id)
                       and (other.rank, other.job_id) < (mine.first_rank, mine.first_job) limit 1) is null)) is true as is_taken
          from numbered as mine
    ), counted as materialized (
        select mine.*, mine."group" is not null and mine.is_taken and mine.number = 1 and not mine.is_holder
                       -- One in sixteen, and the next one after a note that is too old to be of use.
                       and ((mine.its).is_stale or hashint8(mine.job_id) & 15 = 0) as is_noted,
               mine.number = 1 + count(*) filter (where is_taken) over its_group
                   and ((mine.its).slots < mine.number or (mine.its).tokens is not null) as is_first_parked
          from judged as mine
        window its_group as (partition by mine."group", mine.is_holder)
    )
    select array_agg(mine.tid order by mine.rank, mine.job_id) filter (where mine.is_taken),
           count(*) filter (where mine.is_taken and mine."group" is not null),
           coalesce(array_agg(mine.tid) filter (where not mine.is_taken and (mine.its).slots is not null), '{}'),
           array_agg(mine."group") filter (where not mine.is_taken and mine.number = 1 and (mine.its).slots is not null),
           array_agg(mine."group") filter (where mine.is_first_parked), array_agg(mine.rank) filter (where mine.is_first_parked),
           array_agg(mine.job_id) filter (where mine.is_first_parked),
           array_agg(mine.its) filter (where mine.is_noted), array_agg(mine.rank) filter (where mine.is_noted),
           array_agg(mine.job_id) filter (where mine.is_noted),
           array_agg((mine.its).place) filter (where (mine.rank, mine.job_id) < ((mine.its).rank, (mine.its).job_id))
      into taken, grouped, doomed, idle, full_, full_ranks, full_ids, begun, begun_ranks, begun_ids, passed
      from counted as mine;
    if full_ is not null and cardinality(doomed) + grouped < most_parked then
        -- The first of these are in doomed already. A claim that takes many parks fewer.
        doomed := doomed || array(
            select behind.tid
              from unnest(full_, full_ranks, full_ids) as its (name, rank, job_id),
                   lateral (select ctid as tid from job_ready_0 as other
                             where other."group" = its.name and (other.rank, other.job_id) > (its.rank, its.job_id)
                               and (select true from group_hold where job_id = other.job_id) is null
                             limit most_parked - grouped for update skip locked) as behind
             limit most_parked - grouped);
    end if;
    with gone as (
        delete from job_ready_0 where ctid = any (doomed) returning *
    ), put as (
        insert into job_waiting (job_id, rank, not_before, not_after, enqueued_at, weight, priority, attempt, deaths,
                                 lane, state, waiting_for, work_type, queue, "group", tenant, options, payload, error, followed, progress)
        select job_id, rank, not_before, not_after, enqueued_at, weight, priority, attempt, deaths,
               lane, 'waiting', 'group', work_type, queue, "group", tenant, options, payload, error, followed, progress
          from gone
    )
    select count(*) into parked from gone;
    if passed is not null then
        -- Jobs may have been parked before these positions.
        delete from group_front where ctid = any (passed);
    end if;
    if begun is not null then
        perform note_fronts(begun, begun_ranks, begun_ids);
    end if;
    if idle is not null then
        -- No job of these groups is left whose end could make the parked ones ready.
        open := array(select name from unnest(open) as name join unnest(idle) as others (name) using (name)
                       where (select true from job_ready as other
                               where other."group" = name and (select true from group_hold where job_id = other.job_id) is null
                               limit 1) is null);
        if open <> '{}' then
            perform free_groups(open);
        end if;
    end if;
end $$;

-- How many more jobs of each group may run now (slots): its limit, which an operator set or its type declares,
-- minus its running jobs and those that hold their place from a wait to the end of the next run (holders). 0 while a group is paused or held, or its rate is used up; paid_in then has the seconds until the
-- next token, or the end of the hold. A paused or held group has no holders, as none of its jobs may go on. Without work_types, the type of the oldest parked job counts, whose position is (oldest_rank, oldest_job).
-- If that type declares a rate, and no operator has set one, it is rated_type, and tokens has what is left; with work_types, slots do not count these,
-- as other jobs of the group may have another type.
--
-- Also returns where the group's jobs begin, as note_fronts() has noted it: (rank, job_id) for the parked ones,
-- (ready_rank, ready_job) for the ready ones, assignment for the running ones; before all of them if that is not known.
-- place is the row of the note; is_stale if it should be renewed. The caller holds the groups' locks.
create or replace function txqueue.group_slots(groups text[], work_types text[] default null) returns setof txqueue.group_slot
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
declare
    moment constant timestamptz := clock_timestamp();
begin
    return query
    select its.name,
           case when control.is_paused or control.held_until > moment then 0
                else greatest(0, least(coalesce(control.concurrency, (policy ->> 'group_limit')::double precision, 1) - running.jobs
                    - coalesce(cardinality(hold.jobs), 0), bucket.jobs,
                    case when work_types is null then floor(paced.tokens) end, 1e6))::integer
           end,
           case when control.is_paused is not true then greatest(bucket.opens_in, paced.opens_in,
                case when control.held_until > moment then extract(epoch from control.held_until - moment) end) end,
           start.rank, start.job_id,
           case when note.is_looked then start.rank else '-infinity' end, case when note.is_looked then start.job_id else 0 end,
           start.assignment, case when note.is_looked then note.looked_at end, note.place,
           not note.is_looked, oldest.rank, oldest.job_id, case when (control.is_paused or control.held_until > moment) is not true then hold.jobs end,
           case when paced.tokens is not null then work_type.work_type end, paced.tokens
      from unnest(groups, work_types) as its (name, work_type)
      left join lateral (
            -- No older note is trusted, as it may be from before a failover. A job that becomes ready before the
            -- position may be overlooked for a second by claims that do not take it.
            select ctid as place, *, moment - noted_at between interval '0' and interval '10 seconds' as is_valid,
                   moment - looked_at between interval '0' and interval '1 second' as is_looked
              from group_front where "group" = its.name
             -- The last row first, so that it does not matter how many former ones a snapshot keeps.
             order by number desc limit 1) as note on true
     cross join lateral (
            select case when note.is_valid then note.rank else '-infinity' end as rank,
                   case when note.is_valid then note.job_id else 0 end as job_id,
                   case when note.is_valid then note.assignment else 0 end as assignment) as start
      left join lateral (
            select rank, job_id, work_type from job_waiting
             where work_types is null and waiting_for = 'group' and "group" = its.name and (rank, job_id) >= (start.rank, start.job_id)
             order by rank, job_id limit 1) as oldest on true
      left join control on kind = 'group' and key = its.name
      left join work_type on work_type.work_type = coalesce(its.work_type, oldest.work_type)
     cross join lateral (select array_agg(job_id) as jobs from group_hold where "group" = its.name) as hold
     cross join lateral (
            select count(*) as jobs from job_assigned
             where "group" = its.name and assignment >= start.assignment and (job_id = any (hold.jobs)) is not true) as running
      -- Because of offset 0, the function is called only for a group with a rate.
      left join lateral (select * from bucket_level(control) where control.rate is not null offset 0) as bucket on true
      left join lateral (
            select tokens, opens_in from rate_level(work_type.work_type, its.name, work_type.policy -> 'group_rate')
             where control.rate is null and work_type.policy ? 'group_rate' offset 0) as paced on true;
end $$;

-- Notes where the jobs of groups begin: at a job of each that is about to be assigned, as none is ready or parked
-- before it. This spares later looks the rows of ended jobs that an old snapshot keeps. A group without other
-- jobs needs no note, and one with a rate gets none, as its jobs that wait for a token are parked again. The caller
-- holds the groups' locks.
create or replace function txqueue.note_fronts(slots txqueue.group_slot[], ranks timestamptz[], ids bigint[]) returns void
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
declare
    -- See next_assignment().
    next_number constant bigint := (coalesce(pg_sequence_last_value('txqueue.assignment'), 0) + 1) << 22;
begin
    with noted as (
        insert into group_front ("group", rank, job_id, assignment, noted_at, looked_at)
        select its.name, first.rank, first.job_id,
               coalesce((select held.assignment from job_assigned as held
                          where held."group" = its.name and held.assignment >= its.assignment
                          order by held.assignment limit 1), next_number),
               clock_timestamp(), coalesce(its.looked_at, clock_timestamp())
          from unnest(slots) with ordinality as its
          join unnest(ranks, ids) with ordinality as first (rank, job_id, number) on first.number = its.ordinality
         where its.tokens is null and not exists (select from control where kind = 'group' and key = its.name and rate is not null)
           and ((select true from job_waiting as other where other."group" = its.name and other.waiting_for = 'group'
                   and (other.rank, other.job_id) > (first.rank, first.job_id) limit 1)
             or (select true from job_ready as other where other."group" = its.name
                   and (other.rank, other.job_id) > (first.rank, first.job_id) limit 1))
        returning "group"
    )
    delete from group_front
     where ctid = any (array(select its.place from unnest(slots) as its join noted on noted."group" = its.name));
end $$;

-- Makes as many of the oldest parked jobs of each group ready as may run, minus those already ready before
-- them, and all that hold their place; called when a job of the group ends or is returned. If the group's rate is used up, its oldest parked
-- job waits for the next token instead, and the rest follow it. Keys are locked in sorted order, and only
-- their holders touch parked rows, so no wake-up is lost. Returns the first of the jobs made ready; its rank is null
-- if there are none.
create or replace function txqueue.free_groups(groups text[]) returns txqueue.ready_head
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
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

-- Charges the rates of groups for jobs that start: that of an operator for each, that of a type what they cost, which is their
-- weight until a handler says otherwise. If the group's next job has to wait for the next token, it waits from now on, and not
-- from the end of another one. The caller holds the groups' locks.
create or replace function txqueue.charge_groups(groups text[], types text[], weights integer[]) returns void
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    by_operators constant text[] := array(select key from control where kind = 'group' and key = any (groups) and rate is not null);
    by_types     constant text[] := array(select work_type from work_type where work_type = any (types) and policy ? 'group_rate');
begin
    perform charge_control('group', spent.name, spent.jobs)
       from (select name, count(*)::integer as jobs from unnest(groups) as name where name = any (by_operators) group by name) as spent;
    perform charge_rate(spent.work_type, spent.name, spent.cost)
       from (select work_type, name, sum(weight) as cost from unnest(groups, types, weights) as each (name, work_type, weight)
              where work_type = any (by_types) and name <> all (by_operators) group by work_type, name) as spent;
    groups := by_operators || array(select name from unnest(groups, types) as each (name, work_type) where work_type = any (by_types));
    if groups <> '{}' and (free_groups(groups)).rank is not null then
        perform wake_masters(1);
    end if;
end $$;

-- Parks the jobs again that have waited for the next token of their group's rate, by ctid, and makes the first job of each
-- such group ready, which may be another one by now: it has come since, or the waiting one's queue was paused. A group
-- whose key another session holds is looked at again in a moment. Returns how many jobs, null for null.
create or replace function txqueue.end_rate_waits(places tid[]) returns integer
language plpgsql strict volatile
set enable_seqscan = off
as $$
declare
    keys   constant smallint[] := try_keys(array(select distinct key_of("group") from job_waiting where ctid = any (places)));
    groups text[];
begin
    with its as (
        update job_waiting
           set waiting_for = case when key_of("group") = any (keys) then 'group' else 'rate' end,
               not_before = case when key_of("group") = any (keys) then not_before else clock_timestamp() + interval '50 milliseconds' end
         where ctid = any (places)
        returning "group", waiting_for
    )
    select array_agg("group") into groups from its where waiting_for = 'group';
    if groups is not null then
        -- Others may have begun before them.
        delete from group_front where "group" = any (groups);
        perform free_groups(groups);
    end if;
    return cardinality(places);
end $$;

-- Retries groups whose parked jobs were locked when they should have become ready: by an application that
-- enqueues a follower, or by a handler that coalesced them.
create or replace function txqueue.free_late_groups() returns void
language plpgsql volatile
as $$
declare
    places tid[] := array(select ctid from late_group limit 1000 for update skip locked);
    keys   smallint[];
    groups text[];
begin
    if places <> '{}' then
        -- Groups whose key another session holds are left for the next call.
        keys := try_keys(array(select distinct key_of("group") from late_group where ctid = any (places)));
        with gone as (
            delete from late_group where ctid = any (places) and key_of("group") = any (keys) returning "group"
        )
        select array_agg(distinct "group") into groups from gone;
        if groups is not null then
            perform free_groups(groups);
            perform wake_masters(cardinality(groups));
        end if;
    end if;
end $$;

-- Locks the keys of the groups of some jobs in sorted order, as every statement that changes a parked job
-- must: otherwise a completion that waits for its row would lose its wake-up. Returns the groups; jobs of
-- other groups, such as a job retried meanwhile, must not be changed. A caller that may not wait gets the groups
-- whose keys are free.
create or replace function txqueue.lock_groups(ids bigint[], may_wait boolean) returns text[]
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    groups text[] := array(
        select distinct "group" from job
         where job_id = any (ids) and state in ('waiting', 'ready', 'assigned') and "group" is not null);
    keys   smallint[] := array(select distinct key_of(name) from unnest(groups) as name);
begin
    if not may_wait then
        keys := try_keys(keys);
        return array(select name from unnest(groups) as name where key_of(name) = any (keys));
    end if;
    perform lock_keys(keys);
    return groups;
end $$;
