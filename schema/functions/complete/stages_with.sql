-- The stages of a job that have ended, the latest twenty, with the one that ends now: its place, work type, runs,
-- node, and the start and the end of its last run.
create or replace function txqueue.stages_with(this job) returns jsonb
language sql volatile
set search_path = txqueue, pg_temp
as $$
    with former as (
        select coalesce(jsonb_path_query_array(this.options -> 'stages', '$[last - 18 to last]'), '[]') as stages
    )
    select stages || jsonb_build_object(
               'stage', coalesce((stages -> -1 ->> 'stage')::integer, 0) + 1, 'work_type', this.work_type, 'runs', this.attempt,
               'node', (select name from node_info where node_id = this.node_id),
               'began', coalesce(this.started_at, this.assigned_at), 'ended', clock_timestamp())
      from former
$$;
