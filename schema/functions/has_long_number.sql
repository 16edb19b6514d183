-- Whether a payload, also given as text, has a number of more digits than Python reads, as JSON or at all (4,300: see
-- sys.set_int_max_str_digits).
create or replace function @schema@.has_long_number(payload jsonb, its_text text) returns boolean
language sql stable
as $$
    select case when octet_length(its_text) <= 4300 then false
                when its_text !~ '[0-9.]{255}' then false
                else exists (select from jsonb_path_query(payload, 'strict $.**') as value
                              where jsonb_typeof(value) = 'number' and length(value::text) > 4300) end
$$;
