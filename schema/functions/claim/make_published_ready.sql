-- Makes the jobs ready that waited for a type which is now published. Returns how many.
create or replace function txqueue.make_published_ready() returns integer
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
declare
    this     job;
    released integer := 0;
begin
    for this in
        delete from job_waiting
         where ctid = any (array(
            select ctid from job_waiting
             where waiting_for = 'type' and work_type = any (array(
                select known.work_type from work_type as known
                 where exists (select from job_waiting as job
                                where job.waiting_for = 'type' and job.work_type = known.work_type)))
               for update skip locked))
        returning *
    loop
        this.waiting_for := case when this.not_before > clock_timestamp() then 'time' end;
        this.state := case when this.waiting_for is null then 'ready' else 'waiting' end;
        this.lane := current_lane();
        insert into job values (this.*);
        released := released + 1;
    end loop;
    if released > 0 then
        perform wake_masters();
    end if;
    return released;
end $$;
