-- Returns the schedules that are due, as an array of objects, whether the condition of each holds, seconds
-- until it is worth looking again (null for nothing to wait for), and the clock. A caller that has looked
-- up to a moment passes it as since, so that the dead rows before it are not read again; null looks at all. Those
-- for which no moment was computed yet are always among them.
--
-- It runs with the rights of the node that calls it: a condition sees what the node's own role may read. One that
-- cannot be checked does not hold, and the others are none the worse for it.
create or replace function @schema@.due_schedules(
    since timestamptz default null, at_most integer default 500,
    out due jsonb, out due_in double precision, out seen_at timestamptz)
language plpgsql volatile
set search_path = @schema@, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    tested  record;
    target  record;
    present text[];
    pattern text;
    quoted_fields text;
    answers jsonb := '{}';
    reasons jsonb := '{}';
    rows    schedule[];
begin
    seen_at := clock_timestamp();
    rows := array((select this from schedule as this where is_active and next_due = '-infinity' limit at_most)
                  union all
                  (select this from schedule as this
                    where is_active and next_due <= seen_at and next_due >= coalesce(since, 'epoch')
                    order by next_due limit at_most));
    for tested in
        select condition_table as its_table, condition_column as its_column,
               array_agg(condition_value) as given, array_agg(schedule_id) as ids
          from unnest(rows) where condition_table is not null group by 1, 2
    loop
        begin
            select space.nspname, class.relname,
                   (select atttypid::regtype::text from pg_attribute
                     where attrelid = class.oid and attname = tested.its_column) as type into strict target
              from pg_class as class join pg_namespace as space on space.oid = class.relnamespace
             where class.oid = to_regclass(tested.its_table);
            -- Keys are compared as what they are, or their index could not be used; what is none equals none.
            pattern := case when target.type in ('smallint', 'integer', 'bigint') then '^-?\d{1,18}$'
                            when target.type = 'uuid' then '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' end;
            quoted_fields := format(case when pattern is null then '%I::text = any ($1)' when target.type = 'uuid' then '%I = any ($1::uuid[])'
                                         else '%I = any ($1::bigint[])' end, tested.its_column);
            execute format('select array_agg(distinct %I::text) from %I.%I where %s',
                           tested.its_column, target.nspname, target.relname, quoted_fields)
               into present using array(select value from unnest(tested.given) as value where pattern is null or value ~ pattern);
            answers := answers || coalesce((
                select jsonb_object_agg(id, value = any (coalesce(present, '{}')))
                  from unnest(tested.ids, tested.given) as each (id, value)), '{}');
        exception when others then
            reasons := reasons || (select jsonb_object_agg(id, format('the condition on %s cannot be checked: %s',
                                                                      tested.its_table, sqlerrm))
                                     from unnest(tested.ids) as id);
        end;
    end loop;
    select coalesce(jsonb_agg(jsonb_build_object(
               'schedule_id', schedule_id, 'name', name, 'kind', kind, 'expression', expression, 'zone', zone,
               'seconds', seconds, 'jitter', jitter, 'catch_up', catch_up,
               'due', case when isfinite(next_due) then next_due end,
               'holds', case when condition_table is null then true
                             else coalesce((answers ->> schedule_id::text)::boolean, false) end,
               'error', reasons ->> schedule_id::text)), '[]')
      into due from unnest(rows);
    if cardinality(rows) >= at_most then
        due_in := 0;
    else
        -- What runs now and ends at once is due again no sooner than its cool-down is over.
        select least(
            (select extract(epoch from next_due - clock_timestamp())::double precision from schedule
              where is_active and next_due > seen_at and isfinite(next_due) order by next_due limit 1),
            (select seconds from schedule where kind = 'cooldown' and is_active and next_due is null
              order by seconds limit 1)) into due_in;
    end if;
end $$;
