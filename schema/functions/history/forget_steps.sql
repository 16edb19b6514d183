-- Deletes the steps of the jobs of a day of history that is to be dropped, for two seconds of a statement; returns whether
-- all are deleted. They are found by the numbers of the jobs, as a day has many jobs, few of which have steps.
create or replace function txqueue.forget_steps(leaf text) returns boolean
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    deleted integer := 1;
begin
    while deleted > 0 and clock_timestamp() < statement_timestamp() + interval '2 s' loop
        execute format('with few as (
                select distinct step.job_id
                  from (select min(job_id) as first, max(job_id) as last from %1$I) as day
                  join job_step as step on step.job_id between first and last
                 where exists (select from %1$I as past where past.job_id = step.job_id) limit 1000)
            delete from job_step using few where job_step.job_id = few.job_id', leaf);
        get diagnostics deleted = row_count;
    end loop;
    return deleted = 0;
end $$;
