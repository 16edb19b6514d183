-- When a job last changed: enqueued, assigned to a node, started, failed in an attempt, or ended; not a change of its
-- priority. Without settings of its own, so that it is inlined.
create or replace function txqueue.updated_at(its txqueue.job) returns timestamptz
language sql immutable parallel safe
as $$
    select greatest(its.enqueued_at, its.assigned_at, its.started_at, its.failed_at, its.finished_at)
$$;
comment on function txqueue.updated_at(txqueue.job) is 'When a job was last enqueued, assigned, started, failed in an attempt, or ended.';
