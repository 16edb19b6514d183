-- Returns the schedules that are due, as an array of objects, the condition of each among them (see
-- find_met_conditions()), seconds until the next is due (null if none is), and the database's time. A caller
-- that has checked up to a moment passes it as since, so that the dead rows before it are not read again;
-- null reads all. Schedules without a computed moment are always included; those that a class declares only
-- while a node has that class. Those whose condition is busy, a table and a column with a space between, are left
-- out: the caller is checking it.
create or replace function txqueue.due_schedules(
    since timestamptz default null, at_most integer default 500, busy text[] default '{}',
    out due jsonb, out due_in double precision, out seen_at timestamptz)
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    taken integer;
begin
    seen_at := clock_timestamp();
    -- Not as whole rows: these would be read in full, of which one may be damaged.
    with its as materialized (
                  (select this.* from schedule as this
                    where is_active and next_due = '-infinity' and (condition_table || ' ' || condition_column = any (busy)) is not true
                      and (not is_declared or work_type = any (array(select unnest(work_types) from node_info where state in ('alive', 'draining'))))
                    limit at_most)
                  union all
                  (select this.* from schedule as this
                    where is_active and next_due <= seen_at and next_due >= coalesce(since, 'epoch')
                      and (condition_table || ' ' || condition_column = any (busy)) is not true
                      and (not is_declared or work_type = any (array(select unnest(work_types) from node_info where state in ('alive', 'draining'))))
                    order by next_due limit at_most))
    select coalesce(jsonb_agg(jsonb_build_object(
               'schedule_id', schedule_id, 'name', name, 'kind', kind, 'expression', expression, 'zone', zone,
               'seconds', seconds, 'jitter', jitter, 'catch_up', catch_up,
               'priority', coalesce((readable_json(job) ->> 'priority')::integer, (
                   select priority from work_type as known where known.work_type = its.work_type), 4),
               'due', case when isfinite(next_due) then next_due end, 'put_off', put_off,
               'condition', case when condition_table is not null
                                 then jsonb_build_array(condition_table, condition_column, condition_value) end)), '[]'), count(*)
      into due, taken from its;
    if taken >= at_most then
        due_in := 0;
    else
        -- A running job's schedule is due again at the earliest after its cool-down.
        select least(
            (select extract(epoch from next_due - clock_timestamp())::double precision from schedule
              where is_active and next_due > seen_at and isfinite(next_due) order by next_due limit 1),
            (select seconds from schedule where kind = 'cooldown' and is_active and next_due is null
              order by seconds limit 1)) into due_in;
    end if;
end $$;
