-- Enqueues one job in the caller's transaction; null means the work type's own policy.
create or replace function @schema@.enqueue(
    work_type text, payload jsonb, queue text default null, priority integer default null,
    weight integer default null, not_before timestamptz default null, not_after timestamptz default null,
    "group" text default null, options jsonb default null)
returns bigint
language sql volatile security definer
set search_path = @schema@, pg_temp
as $$
    select (enqueue_many(jsonb_build_array(jsonb_build_object(
        'work_type', work_type, 'payload', payload, 'queue', queue, 'priority', priority, 'weight', weight,
        'not_before', not_before, 'not_after', not_after, 'group', "group", 'options', options))))[1]
$$;
comment on function @schema@.enqueue is 'Enqueue one job in the caller''s transaction.';
