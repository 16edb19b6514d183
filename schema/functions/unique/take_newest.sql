-- Gives jobs that wait for a retry the data of those that follow them by their unique keys, as if these were enqueued
-- now: a stale payload is not tried again. What follows still runs afterwards, and keeps its own start time. One that
-- has the data already keeps its attempts. Returns whether one has become ready.
create or replace function txqueue.take_newest(ids bigint[], out is_ready boolean)
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    newest job;
    this   job;
begin
    is_ready := false;
    for newest in
        select job.* from unique_job join job on job.job_id = unique_job.next_id and job.state = 'waiting'
         where unique_job.job_id = any (ids) and job.not_before <= clock_timestamp()
    loop
        continue when has_large_values(newest) and find_damage(newest.options, newest.payload) is not null;
        delete from job_waiting
         where job_id = (select unique_job.job_id from unique_job where next_id = newest.job_id and unique_job.job_id = any (ids))
           and payload <> newest.payload and can_change_payload(job_waiting)
        returning * into this;
        if found then
            newest.waiting_for := null;
            this := replace_pending(this, newest, 'again');
            insert into job values (this.*);
            is_ready := is_ready or this.state = 'ready';
        end if;
    end loop;
end $$;
