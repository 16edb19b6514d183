-- Has a running job take the pending jobs along that are like it: of its work type, queue, group and tenant, and with
-- nobody who follows them. They end as done with this transaction, the oldest first, at most so many; their numbers and
-- payloads are returned. None if its token no longer holds: its transaction cannot be committed then.
--
-- Those of a group are touched under its key only, as by all; it is held to the end of the transaction.
create or replace function @schema@.coalesce_into(
    its_incarnation integer, its_assignment bigint, its_job_id bigint, at_most integer)
returns table (taken_id bigint, taken_type text, taken_payload text)
language plpgsql volatile security definer
set search_path = @schema@, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    most constant integer := 10000;
    holder job;
    this   job;
    alike  bigint[];
begin
    select * into holder from job_assigned
     where job_id = its_job_id and assignment = its_assignment and incarnation = its_incarnation;
    if not found then
        return;
    end if;
    if holder."group" is not null then
        perform pg_advisory_xact_lock(hashtextextended(holder."group", 839));
        alike := array(
            select first.job_id from (
                select * from job_waiting where waiting_for = 'group' and "group" = holder."group"
                union all
                select * from job_ready where "group" = holder."group") as first
             where first.work_type = holder.work_type and first.queue = holder.queue and first.followed is null
               and first.tenant is not distinct from holder.tenant
             order by first.rank, first.job_id limit least(at_most, most));
    else
        alike := array(
            select first.job_id from (
                -- One of the two is empty; each has an index.
                (select * from job_ready where queue = holder.queue and tenant is null and holder.tenant is null
                  order by rank, job_id limit most)
                union all
                (select * from job_ready where queue = holder.queue and tenant = holder.tenant
                  order by rank, job_id limit most)) as first
             where first.work_type = holder.work_type and first."group" is null and first.followed is null limit at_most);
    end if;
    alike := array(
        select job_id from job where job_id = any (alike) and state in ('waiting', 'ready')
         order by rank, job_id limit at_most for update skip locked);
    for this in
        with gone as (
            delete from job where job_id = any (alike) and state in ('waiting', 'ready') returning *
        )
        select * from gone order by rank, job_id
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
