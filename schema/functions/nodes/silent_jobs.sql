-- The jobs that live nodes have named as running in workers that do not answer: those that block them, and those beside.
create or replace function txqueue.silent_jobs() returns bigint[]
language sql stable security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
    select array_agg(each::bigint)
      from node_info, lateral (
           select jsonb_array_elements_text(report -> 'blocking')
            union all select jsonb_array_elements_text(report -> 'maybe_blocking')
            union all select jsonb_object_keys(report -> 'beside')) as named (each)
     where state in ('alive', 'draining') and heartbeat_at > clock_timestamp() - lease
$$;
