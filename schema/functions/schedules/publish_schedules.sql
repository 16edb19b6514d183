-- Publishes the schedules that the classes of a node declare, and removes those that they no longer declare.
-- The schedules are objects with name, terms and job. Returns how many changed.
create or replace function txqueue.publish_schedules(its_work_types text[], schedules jsonb) returns integer
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    this    record;
    changed integer;
begin
    -- In sorted order, as jobs of several schedules may be ending concurrently.
    perform from schedule
     where is_declared and work_type = any (its_work_types) or name in (select each ->> 'name' from jsonb_array_elements(schedules) as each)
     order by schedule_id for update;
    delete from schedule
     where is_declared and work_type = any (its_work_types)
       and name <> all (array(select each ->> 'name' from jsonb_array_elements(schedules) as each where each ->> 'name' is not null));
    get diagnostics changed = row_count;
    for this in
        select * from jsonb_to_recordset(schedules) as each (name text, terms jsonb, job jsonb) order by name
    loop
        changed := changed + put_schedule(this.name, this.terms, this.job, null, null, true)::integer;
    end loop;
    return changed;
end $$;
