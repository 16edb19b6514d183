-- Records a failed attempt; keeps the latest hundred of each job.
create or replace function txqueue.note_attempt(this job, error text) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    insert into failed_attempt (job_id, attempt, began, node_id, error)
    values (this.job_id, this.attempt, coalesce(this.started_at, this.assigned_at), this.node_id, left(note_attempt.error, 4000));
    if this.attempt > 100 then
        perform forget_attempts(this.job_id);
    end if;
end $$;
