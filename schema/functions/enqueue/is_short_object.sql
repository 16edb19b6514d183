-- Whether a payload is a JSON object that breaks no rule, as those about its size and digits hold for all so short.
-- Without settings of its own, so that it is inlined.
create or replace function txqueue.is_short_object(payload jsonb, payload_limit integer) returns boolean
language sql immutable
as $$
    select octet_length(payload::text) <= case jsonb_typeof(payload) when 'object' then least(payload_limit, 4300) end
$$;
