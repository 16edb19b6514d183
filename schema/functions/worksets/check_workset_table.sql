-- Refuses a workset whose own table is missing: the error of a statement would look like one of an old schema.
create or replace function txqueue.check_workset_table(its_name text) returns void
language plpgsql stable
set search_path = txqueue, pg_temp
as $$
begin
    if to_regclass('workset_' || its_name) is null then
        perform refuse(format('the table workset_%s of the workset %s is missing', its_name, its_name),
                       'restore it; or put its items into it again by fill(), which makes the table');
    end if;
end $$;
