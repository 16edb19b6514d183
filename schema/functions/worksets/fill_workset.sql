-- Puts items, an array of objects, into a workset's own table in the caller's transaction, and divides them
-- into parts: a part and all its items become visible at the same moment. Returns how many. A started workset
-- whose jobs have ended gets new ones. Refused if the workset has reached its bound.
create or replace function txqueue.fill_workset(its_name text, items jsonb) returns bigint
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    its     workset;
    total   integer := jsonb_array_length(items);
    parts   bigint[];
    quoted_names   text;
    quoted_columns text;
    quoted_aliases text;
    held    bigint;
begin
    -- Shared: a job of the workset ends only when no session is filling it.
    select * into its from workset where name = its_name for share;
    if not found or its.source is not null then
        perform refuse(format('there is no workset %s to fill', its_name), 'worksets are made by the client that fills them, in Python');
    end if;
    perform check_workset_table(its_name);
    if its.bound is not null then
        select sum(part.items) into held from workset_part as part where part.workset_id = its.workset_id;
        if coalesce(held, 0) + total > its.bound then
            perform refuse_workset(its_name, its.bound);
        end if;
    end if;
    if total = 0 then
        return 0;
    end if;
    parts := array(select nextval('workset_part_part_id_seq') from generate_series(1, ceil(total / its.batch::numeric)::integer));
    -- A function's column list cannot be empty.
    select names, coalesce(nullif(ltrim(typed, ', '), ''), '_nothing text'),
           coalesce(nullif(ltrim(names, ', '), ''), '_nothing')
      into quoted_names, quoted_columns, quoted_aliases from workset_columns(its_name);
    execute format(
        'insert into %I (_part, _number%s)
         select $2[1 + (_place - 1) / $3], 1 + (_place - 1) %% $3%s
           from rows from (jsonb_to_recordset($1) as (%s)) with ordinality as each (%s, _place)',
        'workset_' || its_name, quoted_names, quoted_names, quoted_columns, quoted_aliases)
      using items, parts, its.batch;
    insert into workset_part (part_id, workset_id, origin, items) overriding system value
    select part, its.workset_id, part, least(its.batch, total - its.batch * (place - 1)::integer)
      from unnest(parts) with ordinality as each (part, place);
    if its.is_started then
        perform fill_slots(its.workset_id);
    end if;
    return total;
end $$;
comment on function txqueue.fill_workset(text, jsonb) is 'Put items into a workset in the caller''s transaction.';
