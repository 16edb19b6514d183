-- The queues of a node from which jobs may be claimed now, neither paused nor at their limit, each with its
-- limits for this claim. opens_in has the seconds after which a skipped queue opens again, if known.
create or replace function txqueue.open_queues(
    wanted text[], its_capacity integer, out open txqueue.open_queue[], out opens_in double precision)
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    name text;
    this control;
    its  record;
begin
    open := '{}';
    foreach name in array wanted loop
        select * into this from control where kind = 'queue' and key = name;
        if not found then
            open := open || row(name, null, 0, false, 0)::open_queue;
            continue;
        end if;
        its := compute_allowance(this);
        opens_in := least(opens_in, its.opens_in);
        continue when its.jobs = 0;
        -- Some capacity is left to other jobs, however large the reserve.
        open := open || row(name, its.jobs, greatest(0, least(ceil(this.reserve * its_capacity), its_capacity - 1)),
                            this.concurrency is not null, 0)::open_queue;
    end loop;
end $$;
