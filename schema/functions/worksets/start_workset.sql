-- Starts a workset; if an application's table was already worked through, starts again from its first row.
-- Sets the expected number of items. Returns how many jobs were enqueued.
create or replace function txqueue.start_workset(its_name text, its_items bigint default null) returns integer
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    its workset;
begin
    select * into its from workset where name = its_name;
    if its.source is not null or not its.is_started then
        select * into its from workset where name = its_name for update;
    end if;
    if not found then
        perform refuse(format('there is no workset %s', its_name), 'start it from Python, with the class of its items');
    end if;
    if its.source is not null and (its.is_cut or not its.is_started)
       and not exists (select from workset_part where workset_id = its.workset_id) then
        delete from workset_failed where workset_id = its.workset_id;
        update workset_slot set done = 0, failed = 0 where workset_id = its.workset_id;
        update workset set is_cut = false, cut_to = null, done = 0, failed = 0, expected = coalesce(its_items, 0)
         where workset_id = its.workset_id;
    end if;
    update workset set is_started = true where workset_id = its.workset_id and not is_started;
    return fill_slots(its.workset_id);
end $$;
