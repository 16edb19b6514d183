-- Keeps what is told of an attempt that failed, of each job the latest hundred.
create or replace function txqueue.note_attempt(this job, error text default null) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
begin
    insert into failed_attempt (job_id, attempt, began, node_id, error)
    values (this.job_id, this.attempt, coalesce(this.started_at, this.assigned_at), this.node_id, left(coalesce(note_attempt.error, this.error), 4000));
    if this.attempt > 100 then
        delete from failed_attempt as old where old.job_id = this.job_id and old.attempt <= this.attempt - 100;
    end if;
end $$;
