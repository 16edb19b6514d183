-- Parks the jobs of busy groups among those that its caller has locked in one ready lane, and returns the
-- rows to take: all without a group, and of each group as many of the oldest as may run, if no older one is
-- ready or parked elsewhere. Those that hold their place in a group that is not paused are all taken. It also parks the ready jobs behind those that it parks, up to most_parked with
-- those, so that later claims do not read them. A group whose key another session holds is left for the next
-- claim. One function per lane, so that its plans are kept.
create or replace function txqueue.admit_groups_0(locked tid[], most_parked integer, out taken tid[], out parked integer)
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    held    text[];
    keys    smallint[];
    types   text[];
    slots   group_slot[];
    open    text[];
    idle    text[];
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
    select array_agg(its), array_agg(its.name) filter (where its.slots > 0 or its.paid_in is not null)
      into slots, open
      from group_slots(held, types) as its;
    with numbered as (
        select ready.tid, ready."group", ready.rank, ready.job_id, its, held.is_holder, row_number() over mine as number,
               first_value(ready.rank) over mine as first_rank, first_value(ready.job_id) over mine as first_job
          from (select ctid as tid, "group", rank, job_id from job_ready_0 where ctid = any (locked) offset 0) as ready
               left join unnest(slots) as its on its.name = ready."group"
               cross join lateral (select (ready.job_id = any (its.holders)) is true as is_holder) as held
        window mine as (partition by ready."group", held.is_holder order by ready.rank, ready.job_id)
    ), judged as materialized (
        select mine.*, (mine."group" is null or mine.is_holder or (mine.number <= (mine.its).slots
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
               mine.number = 1 + count(*) filter (where is_taken) over its_group and (mine.its).slots < mine.number as is_first_parked
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
