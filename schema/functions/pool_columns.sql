-- The fields of the items in a pool's own table: their names, quoted and joined, and the same with types.
create or replace function @schema@.pool_columns(its_name text, out names text, out typed text)
language sql stable
set search_path = @schema@, pg_temp
as $$
    select coalesce(string_agg(', ' || quote_ident(attname), '' order by attnum), ''),
           coalesce(string_agg(format(', %I %s', attname, format_type(atttypid, atttypmod)), '' order by attnum), '')
      from pg_attribute where attrelid = to_regclass('pool_' || its_name) and attnum > 2 and not attisdropped
$$;
