-- The fields of the items in a workset's own table, all quoted: each name after a comma, the same with types,
-- and the names as a list that is never empty.
create or replace function txqueue.workset_columns(its_name text, out names text, out typed text, out fields text)
language sql stable
set search_path = txqueue, pg_temp
as $$
    select coalesce(string_agg(', ' || quote_ident(attname), '' order by attnum), ''),
           coalesce(string_agg(format(', %I %s', attname, format_type(atttypid, atttypmod)), '' order by attnum), ''),
           coalesce(string_agg(quote_ident(attname), ', ' order by attnum), 'null as _nothing')
      from pg_attribute where attrelid = to_regclass('workset_' || its_name) and attnum > 2 and not attisdropped
$$;
