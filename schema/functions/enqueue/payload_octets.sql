-- How long a payload is as text, which is how it travels. What is stored small is counted as it is stored: to write
-- out each of millions of small ones costs more than the limit of a claim is worth. Without settings of its own, so
-- that it is inlined.
create or replace function txqueue.payload_octets(payload jsonb) returns integer
language sql stable
as $$
    select case when pg_column_size(payload) < 64 then pg_column_size(payload) else octet_length(payload::text) end
$$;
