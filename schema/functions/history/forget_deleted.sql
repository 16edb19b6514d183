-- The trigger of tables of jobs: what belongs to jobs that a user has deleted goes with them. Stored functions say by a
-- setting that the next statement deletes rows in order to move them.
create or replace function txqueue.forget_deleted() returns trigger
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
begin
    if current_setting('queue_rows.are_moved', true) = 'on' then
        perform set_config('queue_rows.are_moved', '', true);
        return null;
    end if;
    delete from job_step using gone where job_step.job_id = gone.job_id;
    delete from job_signal using gone where job_signal.job_id = gone.job_id;
    delete from failed_attempt using gone where failed_attempt.job_id = gone.job_id;
    delete from group_hold using gone where group_hold.job_id = gone.job_id;
    delete from unread_job using gone where unread_job.job_id = gone.job_id;
    return null;
end $$;
