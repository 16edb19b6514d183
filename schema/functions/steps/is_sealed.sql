-- Whether a value has the form that encryption by a client makes. Without settings of its own, so that it is inlined.
create or replace function txqueue.is_sealed(value jsonb) returns boolean
language sql immutable
as $$
    select case when jsonb_typeof(value) = 'object'
                then jsonb_typeof(value -> 'encrypted') is not distinct from 'string' and value - 'encrypted' = '{}' else false end
$$;
