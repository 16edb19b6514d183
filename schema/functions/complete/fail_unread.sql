-- Returns a job as failed because no node could read its payload in time, and records the attempt.
create or replace function txqueue.fail_unread(this job) returns job
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    delete from unread_job where unread_job.job_id = this.job_id;
    delete from group_hold where group_hold.job_id = this.job_id;
    this.state := 'failed';
    this.waiting_for := null;
    this.finished_at := clock_timestamp();
    this.failed_at := this.finished_at;
    this.fingerprint := fingerprint(this.error);
    this.attempt := least(this.attempt + 1, 32767);
    insert into failed_attempt (job_id, attempt, began, node_id, error, error_class)
    values (this.job_id, this.attempt, coalesce(this.started_at, this.assigned_at, this.finished_at), this.node_id,
            left(this.error, 4000), 'txqueue.errors.UnreadablePayload');
    return this;
end $$;
