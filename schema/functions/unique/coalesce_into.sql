-- Ends pending jobs similar to a running job together with it: those of its work type, queue, group and
-- tenant without followers that no version of their type failed to read, optionally also those due later. They
-- end as done with this transaction, the oldest first, up to a limit; returns their numbers and payloads. Returns
-- none if the running job's token no longer holds, as its transaction cannot commit then.
--
-- It waits for no lock and holds no key of a group: rows locked by other sessions are skipped, and sessions
-- that make jobs of the group ready skip the rows locked here, until the end of this job wakes the group.
create or replace function txqueue.coalesce_into(
    its_incarnation integer, its_assignment bigint, its_job_id bigint, at_most integer, later boolean default false)
returns table (taken_id bigint, taken_type text, taken_payload text)
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    most constant integer := 10000;
    holder  job;
    this    job;
    ready   bigint[] := '{}';
    waiting bigint[] := '{}';
begin
    select * into holder from job_assigned
     where job_id = its_job_id and assignment = its_assignment and incarnation = its_incarnation;
    if not found then
        return;
    end if;
    at_most := least(at_most, most);
    if holder."group" is not null then
        waiting := array(
            select job_id from job_waiting
             where "group" = holder."group" and (waiting_for = 'group' or later and waiting_for in ('time', 'rate'))
               and work_type = holder.work_type and queue = holder.queue and followed is null
               and (options ?| array['unread', 'steps']) is not true
               and tenant is not distinct from holder.tenant
             order by rank, job_id limit at_most for update skip locked);
        ready := array(
            select job_id from job_ready
             where "group" = holder."group" and work_type = holder.work_type and queue = holder.queue and followed is null
               and (options ?| array['unread', 'steps']) is not true
               and tenant is not distinct from holder.tenant
             order by rank, job_id limit at_most - cardinality(waiting) for update skip locked);
    else
        if holder.tenant is null then
            ready := array(
                select job_id from job_ready
                 where queue = holder.queue and tenant is null
                   and work_type = holder.work_type and "group" is null and followed is null
                   and (options ?| array['unread', 'steps']) is not true
                 order by rank, job_id limit at_most for update skip locked);
        else
            ready := array(
                select job_id from job_ready
                 where queue = holder.queue and tenant = holder.tenant
                   and work_type = holder.work_type and "group" is null and followed is null
                   and (options ?| array['unread', 'steps']) is not true
                 order by rank, job_id limit at_most for update skip locked);
        end if;
        if later then
            waiting := array(
                select job_id from job_waiting
                 where waiting_for in ('time', 'rate') and queue = holder.queue and work_type = holder.work_type
                   and tenant is not distinct from holder.tenant and "group" is null and followed is null
                   and (options ?| array['unread', 'steps']) is not true
                 order by not_before limit at_most - cardinality(ready) for update skip locked);
        end if;
    end if;
    for this in
        with from_waiting as (
            delete from job_waiting where job_id = any (waiting) returning *
        ), from_ready as (
            delete from job_ready where job_id = any (ready) returning *
        )
        select * from (select * from from_waiting union all select * from from_ready) as gone order by rank, job_id
    loop
        this.state := 'done';
        this.waiting_for := null;
        this.error := 'coalesced into job ' || its_job_id;
        this.assigned_at := holder.assigned_at;
        this.finished_at := clock_timestamp();
        this.assignment := its_assignment;
        this.node_id := holder.node_id;
        this.incarnation := its_incarnation;
        insert into job values (this.*);
        taken_id := this.job_id;
        taken_type := this.work_type;
        taken_payload := this.payload::text;
        return next;
    end loop;
end $$;
