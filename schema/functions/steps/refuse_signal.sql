-- Refuses a signal to a job that has ended or does not exist.
create or replace function txqueue.refuse_signal(its_job_id bigint, name text) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
declare
    ended text := (select state::text from job where job_id = its_job_id and state in ('done', 'failed', 'cancelled') limit 1);
begin
    if ended is not null then
        perform refuse(
            format('job %s takes no signal %s: %s', its_job_id, name, case ended when 'done' then 'it is done' when 'failed' then 'it has failed' else 'it was cancelled' end),
            case ended when 'done' then 'nothing: it waits no more' else 'retry the job first; it then waits again' end);
    end if;
    perform refuse(format('there is no job %s that could take the signal %s', its_job_id, coalesce(name, 'null')),
                   'check the number; enqueue the job first, and commit that or use the same transaction');
end $$;
