-- Which of some values occur in a column of an application's table or view; a value that is not valid for the
-- column's type does not occur. Runs with the rights of the calling node's role. The caller limits its time.
create or replace function txqueue.find_met_conditions(its_table text, its_column text, given text[]) returns text[]
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    target record;
    met    text[];
begin
    select space.nspname, class.relname,
           -- The type without its length, as values are compared whole.
           (select case atttypid when 'bpchar'::regtype then 'bpchar' else atttypid::regtype::text end
              from pg_attribute where attrelid = class.oid and attname = its_column and attnum > 0 and not attisdropped) as type
      into target
      from pg_class as class join pg_namespace as space on space.oid = class.relnamespace
     where class.oid = to_regclass(its_table);
    if target.type is null then
        perform refuse(format('%s has no column %s', its_table, its_column), 'change the schedule, or make the table again');
    end if;
    -- Compared as the column's type, so that its index can be used.
    execute format('with fit as materialized (select value from unnest($1) as value where txqueue.is_input(value, %L::regtype)) '
                   'select array_agg(value) from fit where exists (select from %I.%I as here where here.%I = fit.value::%s)',
                   target.type, target.nspname, target.relname, its_column, target.type)
       into met using given;
    return coalesce(met, '{}');
end $$;
