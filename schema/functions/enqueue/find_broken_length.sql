-- The rule that a payload's text breaks: the length limit, or a number with more digits than Python parses
-- (4,300: see sys.set_int_max_str_digits); null for none.
create or replace function txqueue.find_broken_length(payload jsonb, payload_limit integer) returns text
language sql stable
as $$
    select case when octet_length(payload::text) > payload_limit then 'size'
                when payload::text !~ '[0-9.]{255}' then null
                when exists (select from jsonb_path_query(payload, 'strict $.**') as value
                              where jsonb_typeof(value) = 'number' and length(value::text) > 4300) then 'digits' end
$$;
