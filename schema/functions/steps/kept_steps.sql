-- The steps of a job, in their order, as the archive has them.
create or replace function txqueue.kept_steps(its_job_id bigint) returns jsonb
language plpgsql stable security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
begin
    return (
        select jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
                   'name', name, 'kind', kind, 'error', error, 'signal', signal, 'child', child, 'child_type', child_type,
                   'until', until, 'began_at', began_at, 'ended_at', ended_at))
                   || case when result is null then '{}' else jsonb_build_object('result', readable_json(result)) end order by number)
          from job_step where job_id = its_job_id);
end $$;
