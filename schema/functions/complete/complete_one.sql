-- Completes one job in the caller's transaction, with its own writes or not at all. Returns false
-- when its token no longer holds: the caller must roll back.
create or replace function txqueue.complete_one(
    its_incarnation integer, its_assignment bigint, its_job_id bigint, its_result jsonb, its_progress jsonb default null)
returns boolean
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
as $$
begin
    perform check_isolation('a job does not end');
    -- Its commit is to follow: a process that is stopped in between holds the row, and its group's key, no longer than this.
    perform set_config('idle_in_transaction_session_timeout', '30s', true);
    return (select settled <> '{}' from settle(its_incarnation, jsonb_build_array(jsonb_build_object(
        'job_id', its_job_id, 'assignment', its_assignment, 'outcome', 'done', 'result', its_result,
        'progress', its_progress))));
end $$;
