-- The queues of a node from which jobs may be claimed now, neither paused nor at their limit, each with its
-- limits for this claim. opens_in has the seconds after which a skipped queue opens again, if known. Only next_job()
-- calls it; see compute_allowances().
create or replace function txqueue.open_queues(
    wanted text[], its_capacity integer, out open txqueue.open_queue[], out opens_in double precision)
language plpgsql volatile
as $$
begin
    select coalesce(array_agg(row(
               its.name, its.jobs,
               -- Some capacity is left to other jobs, however large the reserve.
               greatest(0, least(ceil(coalesce(its.reserve, 0) * its_capacity), its_capacity - 1)),
               its.is_counted, 0)::txqueue.open_queue) filter (where its.jobs is distinct from 0), '{}'),
           min(its.opens_in)
      into open, opens_in
      from txqueue.compute_allowances('queue', wanted) as its;
end $$;
