-- From when a cool-down counts as its job has ended: now, or when the last run of that job was started.
create or replace function txqueue.cooldown_start(counts_from text, its_job bigint) returns timestamptz
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
declare
    began timestamptz;
begin
    if counts_from = 'start' then
        select coalesce(started_at, assigned_at) into began from (
            select started_at, assigned_at from job where job_id = its_job and state = 'failed'
            union all
            select started_at, assigned_at from job
             where job_id = its_job and state in ('done', 'cancelled') and finished_at > now() - interval '1 day') as ended;
    end if;
    return coalesce(began, clock_timestamp());
end $$;
