-- Declares nodes dead whose lease has expired and returns their jobs to the queue, also jobs handed to dead
-- nodes since, as a transaction may commit such a job late. Returns how many jobs.
--
-- A node rescues others only if it has kept its own lease, by its own heartbeats, for as long as theirs
-- lasts: after an outage of the database all are late, and the first to reconnect must not take the jobs of
-- the others.
create or replace function txqueue.rescue(its_incarnation integer default null) returns integer
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    since    timestamptz;
    orphaned integer;
    rescued  integer;
    ended    integer[];
begin
    perform forget_future_beats();
    since := coalesce((select leased_at from node_info where incarnation = its_incarnation), '-infinity');
    rescued := mark_dead(array(
        select incarnation from node_info
         where state in ('alive', 'draining') and greatest(heartbeat_at, since) < clock_timestamp() - lease - lease_margin()
           for update skip locked));
    -- They had more jobs than one transaction returns. Or a claim has committed after its node was declared
    -- dead, was stopped, or registered anew: its jobs count no death.
    ended := array(
        select former from node_info
         where former is not null and started_at > clock_timestamp() - lease - interval '1 minute'
        union
        select incarnation from node_info
         where state in ('dead', 'stopped') and ended_at > clock_timestamp() - lease - interval '1 minute');
    if random() < 0.03 then
        -- Any session may have locked a job until now, however long its node has been gone.
        ended := array(
            select distinct incarnation from job_assigned
             where incarnation not in (select incarnation from node_info where state in ('alive', 'draining')));
    elsif ended <> '{}' then
        -- No index has all assigned jobs by incarnation, as it would slow down each claim by an eighth.
        ended := array(select distinct incarnation from job_assigned where incarnation = any (ended));
    end if;
    for orphaned in
        -- From each node with handed jobs to the next by the index, without its other jobs.
        with recursive handed as (
            (select job.incarnation from job_assigned as job where job.handed is not null order by job.incarnation limit 1)
            union all
            select (select job.incarnation from job_assigned as job
                     where job.handed is not null and job.incarnation > handed.incarnation order by job.incarnation limit 1)
              from handed where handed.incarnation is not null
        )
        select handed.incarnation from handed
         where handed.incarnation is not null and not exists (
            select from node_info as node
             where node.incarnation = handed.incarnation and node.state in ('alive', 'draining'))
        union
        select unnest(ended)
    loop
        exit when rescued >= 5000;
        rescued := rescued + release(orphaned, '{}', false, true, at_most => 5000 - rescued);
    end loop;
    return rescued;
end $$;
