-- The steps of a job: their results as text, the seconds until a wait ends by itself, and how the child of a call has
-- ended.
create or replace function txqueue.load_steps(
    its_job_id bigint, out name text, out kind text, out result text, out error text, out is_ended boolean,
    out seconds double precision, out child bigint, out child_state text, out child_type text, out child_result text,
    out child_error text)
returns setof record
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
begin
    return query
    select step.name, step.kind, step.result::text, step.error, step.ended_at is not null,
           extract(epoch from step.until - clock_timestamp())::double precision, step.child, past.state,
           coalesce(past.work_type, step.child_type), past.result, past.error
      from job_step as step
      left join lateral (
            (select other.state::text, other.work_type, other.result::text, other.error from job as other
              where other.job_id = step.child and step.ended_at is null
              order by other.state in ('done', 'failed', 'cancelled') desc limit 1)
             union all
            -- History may have dropped it.
            select step.child_state, step.child_type, step.result::text, step.error where step.child_state is not null
             limit 1) as past on true
     where step.job_id = its_job_id
     order by step.number;
end $$;
