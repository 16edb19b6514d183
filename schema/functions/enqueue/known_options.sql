-- The names of a job's options: those of clients, and, last, the three that schedules add, which no hint offers.
-- Without settings of its own, so that it is inlined.
create or replace function txqueue.known_options() returns text[]
language sql immutable
as $$
    select array['attempts', 'timeout', 'expires', 'as_of', 'once_for', 'created_by', 'tags', 'redacted', 'traceparent',
                 'tracestate', 'traced_at', 'keys', 'schedule', 'due', 'zone']
$$;
