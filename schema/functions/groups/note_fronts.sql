-- Notes where the jobs of groups begin: at a job of each that is about to be assigned, as none is ready or parked
-- before it. This spares later looks the rows of ended jobs that an old snapshot keeps. A group without other
-- jobs needs no note, and one with a rate gets none, as its jobs that wait for a token are parked again. The caller
-- holds the groups' locks.
create or replace function txqueue.note_fronts(slots txqueue.group_slot[], ranks timestamptz[], ids bigint[]) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
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
         where not exists (select from control where kind = 'group' and key = its.name and rate is not null)
           and ((select true from job_waiting as other where other."group" = its.name and other.waiting_for = 'group'
                   and (other.rank, other.job_id) > (first.rank, first.job_id) limit 1)
             or (select true from job_ready as other where other."group" = its.name
                   and (other.rank, other.job_id) > (first.rank, first.job_id) limit 1))
        returning "group"
    )
    delete from group_front
     where ctid = any (array(select its.place from unnest(slots) as its join noted on noted."group" = its.name));
end $$;
