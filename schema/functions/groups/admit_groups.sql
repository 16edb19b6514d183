-- Parks the jobs of busy groups among those that choose_ready() has locked in one ready lane, and returns the
-- rows to take: all without a group, and of each group as many of the oldest as may run, if no older one is
-- ready or parked elsewhere. It also parks other ready jobs of the full groups in the lane, up to most_parked
-- with those, so that later claims do not read them. A group whose key another session holds is left for the
-- next claim. One function per lane, so that its plans are kept.
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
    rooms   integer[];
    open    text[];
    full_   text[];
    full_from timestamptz;
    idle    text[];
    grouped tid[];
    doomed  tid[];
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
    select array_agg(its.name), array_agg(its.slots), array_agg(its.name) filter (where its.slots > 0 or its.paid_in is not null)
      into held, rooms, open
      from group_slots(held, types) as its;
    with numbered as (
        select ready.tid, ready."group", ready.rank, ready.job_id, slots.room, row_number() over its as place,
               first_value(ready.rank) over its as first_rank, first_value(ready.job_id) over its as first_job
          from (select ctid as tid, "group", rank, job_id from job_ready_0 where ctid = any (locked) offset 0) as ready
               left join unnest(held, rooms) as slots (name, room) on slots.name = ready."group"
        window its as (partition by ready."group" order by ready.rank, ready.job_id)
    ), judged as materialized (
        select mine.*, (mine."group" is null or (mine.place <= mine.room
               -- Scalar subqueries, which the planner does not turn into a join: with old statistics of small tables,
               -- a join would read all rows that a held snapshot keeps, for each claim.
               and (select true from job_ready as other where other."group" = mine."group"
                       and (other.rank, other.job_id) < (mine.first_rank, mine.first_job) limit 1) is null
               and (select true from job_waiting as other where other."group" = mine."group" and other.waiting_for = 'group'
                       and (other.rank, other.job_id) < (mine.first_rank, mine.first_job) limit 1) is null)) is true as is_taken
          from numbered as mine
    ), counted as (
        select "group" as name, min(room) as room, count(*) filter (where is_taken) as jobs, min(rank) as first_rank
          from judged where room is not null group by "group"
    )
    select array_agg(mine.tid order by mine.rank, mine.job_id) filter (where mine.is_taken),
           coalesce(array_agg(mine.tid) filter (where mine.is_taken and mine."group" is not null), '{}'),
           coalesce(array_agg(mine.tid) filter (where not mine.is_taken and mine.room is not null), '{}'),
           (select array_agg(name) from counted where room <= jobs),
           (select min(counted.first_rank) from counted where room <= jobs),
           (select array_agg(name) from counted where jobs = 0)
      into taken, grouped, doomed, full_, full_from, idle
      from judged as mine;
    if full_ is not null and cardinality(doomed || grouped) < most_parked then
        -- The first of these are in doomed already. A claim that takes many parks fewer.
        doomed := doomed || array(select ctid from job_ready_0
                                   where "group" = any (full_) and rank >= full_from and ctid not in (select unnest(grouped))
                                   limit most_parked - cardinality(grouped) for update skip locked);
    end if;
    with gone as (
        delete from job_ready_0 where ctid = any (doomed) returning *
    ), put as (
        insert into job_waiting (job_id, rank, not_before, not_after, enqueued_at, weight, priority, attempt, deaths,
                                 lane, state, waiting_for, work_type, queue, "group", tenant, options, payload, error, followed)
        select job_id, rank, not_before, not_after, enqueued_at, weight, priority, attempt, deaths,
               lane, 'waiting', 'group', work_type, queue, "group", tenant, options, payload, error, followed
          from gone
    )
    select count(*) into parked from gone;
    -- No job of these groups is left whose end could make the parked ones ready.
    open := array(select name from unnest(open) as name join unnest(idle) as others (name) using (name)
                   where (select true from job_ready where "group" = name limit 1) is null);
    if open <> '{}' then
        perform free_groups(open);
    end if;
end $$;
