-- Of jobs locked by a claim in one ready lane, parks those whose group is busy and returns the rows
-- to take: all without a group, and of each group as many of the oldest as may run, if no older one is
-- ready or parked elsewhere. With them it parks what else of a full group is ready in the lane, up to
-- 10,000 jobs, so that no later claim meets it. A group whose key another session holds is left for
-- the next claim.
create or replace function @schema@.admit_groups(
    its_lane smallint, locked tid[], out taken tid[], out parked integer)
language plpgsql volatile
set search_path = @schema@, pg_temp
set enable_seqscan = off
as $$
declare
    leaf    text := format('job_ready_%s', its_lane);
    held    text[];
    types   text[];
    rooms   integer[];
    open    text[];
    grouped tid[];
begin
    execute format('select array_agg("group"), array_agg(work_type) from (
            select "group", min(work_type) as work_type from %s where ctid = any ($1) and "group" is not null
             group by "group" limit 500) as keys
          where pg_try_advisory_xact_lock(hashtextextended("group", 839))', leaf)
       into held, types using locked;
    select array_agg(its.name), array_agg(its.slots), array_agg(its.name) filter (where its.slots > 0 or its.paid_in is not null)
      into held, rooms, open
      from group_slots(held, types) as its;
    execute format('select array_agg(tid order by rank, job_id), array_agg(tid) filter (where "group" is not null) from (
            select ready.ctid as tid, "group", rank, job_id, room, row_number() over its as place,
                   first_value(rank) over its as first_rank, first_value(job_id) over its as first_job
              from %s as ready left join unnest($2, $3) as slots (name, room) on name = "group"
             where ready.ctid = any ($1)
            window its as (partition by "group" order by rank, job_id)) as mine
          where "group" is null or (place <= room and not exists (
            select from job_ready as other where other."group" = mine."group"
               and (other.rank, other.job_id) < (first_rank, first_job)) and not exists (
            select from job_waiting as other where other."group" = mine."group" and other.waiting_for = ''group''
               and (other.rank, other.job_id) < (first_rank, first_job)))', leaf)
       into taken, grouped using locked, held, rooms;
    parked := park(leaf, locked, held, rooms, coalesce(grouped, '{}'));
    if exists (select from control where kind = 'group' and rate is not null) then
        execute format('select charge_control(''group'', spent.name, spent.jobs) from (
            select "group" as name, count(*)::integer as jobs from %s where ctid = any ($1) group by 1) as spent', leaf) using grouped;
    end if;
    -- Nothing of these groups is left that could wake the parked ones.
    perform free_groups(array(
        select key from unnest(open) as key where not exists (select from job_ready where "group" = key)));
end $$;
