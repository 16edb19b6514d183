-- Retries a job, as retry() does, from one of its steps on: that step and those that began after it are done again.
create or replace function txqueue.retry_from(its_job_id bigint, its_step text, who text, out forgotten integer)
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    retried bigint[];
    found   text := (select state::text from job where job_id = its_job_id limit 1);
begin
    perform check_isolation('jobs are not run again');
    if found is null then
        perform refuse(format('there is no job %s', its_job_id), 'check the number; old history is dropped');
    end if;
    if found not in ('failed', 'cancelled') then
        perform refuse(format('job %s cannot be retried now: it is %s, not failed or cancelled', its_job_id, found),
                       case found when 'done' then 'enqueue the work again' else format('cancel it first, or see: txqueue explain %s', its_job_id) end);
    end if;
    if not exists (select from job_step where job_id = its_job_id and name = its_step) and not exists (
           select from job where job_id = its_job_id and state = 'cancelled' and steps @> jsonb_build_array(jsonb_build_object('name', its_step))) then
        perform refuse(format('job %s has no step %s', its_job_id, its_step), format('see: txqueue steps %s', its_job_id));
    end if;
    retried := reopen(array[its_job_id]);
    if retried = '{}' then
        perform refuse(format('job %s cannot be retried now', its_job_id), format('see: txqueue explain %s', its_job_id));
    end if;
    with gone as (
        delete from job_step as step using job_step as first
         where first.job_id = its_job_id and first.name = its_step and step.job_id = its_job_id and step.number >= first.number
        returning step.name
    ), freed as (
        -- A wait that begins anew takes a signal of the same key again.
        delete from job_signal as sent using gone where sent.job_id = its_job_id and sent.taken_by = gone.name
    )
    select count(*) into forgotten from gone;
    perform pg_notify('txqueue', '');
    perform note_action(who, 'retry', format_job_ids(retried), jsonb_build_object('jobs', retried, 'from', its_step));
end $$;
