-- Retries jobs: failed and cancelled ones start over with all attempts, behind those that are ready now; jobs
-- that wait for a time, a retry or a version that can read them run now. A job that was cancelled before its
-- not_before waits for it again, and a child waits for its parents again. The last error is kept until the next
-- one. Returns the numbers of the retried jobs and of the others, including jobs whose unique key another job
-- holds, and children with a parent that is not done and not retried. See reopen().
create or replace function txqueue.retry(ids bigint[], who text, out retried bigint[], out refused bigint[])
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
begin
    perform check_isolation('jobs are not run again');
    retried := reopen(ids);
    refused := array(select distinct id from unnest(ids) as id where id <> all (retried) order by id);
    if retried <> '{}' then
        perform pg_notify('txqueue', '');
        perform note_action(who, 'retry', format_job_ids(retried), jsonb_build_object(
            'jobs', retried, 'retried', cardinality(retried), 'refused', cardinality(refused)));
    end if;
end $$;
