-- Deletes the steps of a job that ends, and its hold of its group, and returns the steps for its row of history.
create or replace function txqueue.end_steps(its_job_id bigint) returns jsonb
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    steps jsonb;
begin
    delete from group_hold where job_id = its_job_id;
    with gone as (
        delete from job_step where job_id = its_job_id returning *
    )
    select jsonb_agg(jsonb_strip_nulls(to_jsonb(gone) - array['number', 'job_id', 'result'])
                     || case when result is null then '{}' else jsonb_build_object('result', result) end order by number)
      into steps from gone;
    return steps;
end $$;
