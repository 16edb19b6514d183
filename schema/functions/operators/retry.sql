-- Runs jobs again: failed and cancelled ones start anew, with no attempt spent and behind those that are
-- ready by now; those that wait for a moment or for another attempt need not wait any longer. One that was
-- cancelled before its moment waits for it again, and one that was to follow others follows them again. The last
-- error is kept until there is another. Returns the numbers of those that run again, and of the others: also of
-- those whose unique key another holds, or one of whose parents was not done and does not run again.
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
    -- Those that wait for the jobs: a batch's callback waits for one that runs again.
    children constant bigint[] := lock_children(ids, '{}');
begin
    retried := '{}';
    perform check_isolation('jobs are not run again');
    -- What was asked of a run before is over: it is not to end the new one.
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
    -- Parents come before their children: those find them running again.
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
