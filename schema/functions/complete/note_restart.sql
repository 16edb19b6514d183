-- Records a run that an operator ended so that its job starts again: no attempt has failed.
create or replace function txqueue.note_restart(this job, operator text) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    insert into failed_attempt (job_id, attempt, began, node_id, error, restarted_by)
    values (this.job_id, least(this.attempt + 1, 32767), coalesce(this.started_at, this.assigned_at), this.node_id,
            'restarted by ' || operator, operator);
end $$;
