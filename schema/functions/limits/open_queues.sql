-- The queues of a node from which jobs may be claimed now, neither paused nor at their limit: for each the number of jobs (null for any number),
-- the weight that must stay free for priority 7 and higher, and whether its jobs are counted. opens_in has
-- the seconds after which a skipped queue opens again, if known.
create or replace function txqueue.open_queues(
    wanted text[], its_capacity integer,
    out open text[], out allowed integer[], out kept integer[], out counted boolean[], out opens_in double precision)
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    name   text;
    this   control;
    its    record;
begin
    foreach name in array wanted loop
        select * into this from control where kind = 'queue' and key = name;
        its := null;
        if found then
            select * into its from compute_allowance(this);
            opens_in := least(opens_in, its.opens_in);
            continue when its.jobs = 0;
            open := open || name;
            allowed := allowed || its.jobs;
            -- Some capacity is left to other jobs, however large the reserve.
            kept := kept || greatest(0, least(ceil(this.reserve * its_capacity), its_capacity - 1))::integer;
            counted := counted || (this.concurrency is not null);
        else
            open := open || name;
            allowed := allowed || null::integer;
            kept := kept || 0;
            counted := counted || false;
        end if;
    end loop;
    open := coalesce(open, '{}');
end $$;
