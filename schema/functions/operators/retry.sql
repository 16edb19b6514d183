-- Retries jobs: failed and cancelled ones start over with all attempts, behind those that are ready now; jobs
-- that wait for a time or a retry run now. A job that was cancelled before its not_before waits for it again,
-- and a child waits for its parents again. The last error is kept until the next one. Returns the numbers of
-- the retried jobs and of the others, including jobs whose unique key another job holds, and children with a
-- parent that is not done and not retried.
create or replace function txqueue.retry(ids bigint[], who text, out retried bigint[], out refused bigint[])
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    this  job;
    again job;
    ended job[] := '{}';
    -- The children of the jobs: a batch's callback waits for a retried job.
    children constant bigint[] := lock_children(ids, '{}');
begin
    retried := '{}';
    perform check_isolation('jobs are not run again');
    -- A request to cancel an earlier run must not end the new one.
    delete from request where job_id = any (ids) and not exists (
        select from job_assigned as held where held.job_id = request.job_id and held.assignment = request.assignment);
    for this in
        delete from job
         where job_id = any (ids) and (state in ('failed', 'cancelled')
               or state = 'waiting' and waiting_for = 'time')
        returning *
    loop
        if this.state = 'waiting' then
            this := reset_for_retry(this);
            retried := retried || this.job_id;
            insert into job values (this.*);
        else
            ended := ended || this;
        end if;
    end loop;
    -- Parents come before their children, which wait for the new runs.
    for this in select * from unnest(ended) as each order by each.job_id loop
        if retake_unique_key(this) then
            again := hold_for_parents_again(reset_for_retry(this));
            if again.state <> 'cancelled' then
                retried := retried || this.job_id;
                this := again;
            end if;
        end if;
        insert into job values (this.*);
    end loop;
    update job_parent set ended = null
     where parent = any (retried) and child = any (children) and job_parent.ended is not null;
    refused := array(select distinct id from unnest(ids) as id where id <> all (retried) order by id);
    if retried <> '{}' then
        perform pg_notify('txqueue', '');
    end if;
    perform note_action(who, 'retry', format_job_ids(ids), jsonb_build_object(
        'jobs', ids, 'retried', cardinality(retried), 'refused', cardinality(refused)));
end $$;
