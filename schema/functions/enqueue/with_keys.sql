-- Returns the jobs of enqueue_many() with the keys that their types have published.
create or replace function txqueue.with_keys(jobs jsonb) returns jsonb
language sql volatile
set search_path = txqueue, pg_temp
as $$
    select jsonb_agg(case when known.policy ? 'keys'
                          then job || declared_keys(known.policy, known.work_type, job -> 'payload', job -> 'options', job)
                          else job end order by place)
      from jsonb_array_elements(jobs) with ordinality as element (job, place)
      left join work_type as known on known.work_type = job ->> 'work_type'
$$;
