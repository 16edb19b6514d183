-- The length of a payload as text, in which it travels. A payload with a small stored size is counted by
-- that: converting millions of small payloads would cost more than the limit of a claim is worth. Without
-- settings of its own, so that it is inlined.
create or replace function txqueue.payload_octets(payload jsonb) returns integer
language sql stable
as $$
    select case when pg_column_size(payload) < 64 then pg_column_size(payload) else octet_length(payload::text) end
$$;
