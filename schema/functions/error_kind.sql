-- What an error says, without what differs from one job to the next: numbers, identifiers, quoted texts.
create or replace function @schema@.error_kind(error text) returns text
language sql immutable parallel safe
set search_path = @schema@, pg_temp
as $$
    select regexp_replace(regexp_replace(regexp_replace(
               left(split_part(error, E'\n', 1), 500),
               '(^|\W)(''[^'']*''|"[^"]*")', '\1*', 'g'),
               '\m(0x[0-9a-f]+|[0-9a-f]{8,}(-[0-9a-f]+)*)\M', '#', 'gi'),
               '\d+([.:,-]\d+)*', '#', 'g')
$$;
