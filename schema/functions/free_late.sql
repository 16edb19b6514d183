-- Looks again at groups of which parked jobs were locked as they were to be readied: by an application that enqueues what
-- follows them, or a handler that took them along.
create or replace function @schema@.free_late() returns void
language plpgsql volatile
set search_path = @schema@, pg_temp
as $$
declare
    places tid[] := array(select ctid from unfreed limit 1000 for update skip locked);
    groups text[];
begin
    if places <> '{}' then
        with gone as (
            delete from unfreed where ctid = any (places) returning "group"
        )
        select array_agg(distinct "group") into groups from gone;
        perform free_groups(groups);
        perform wake();
    end if;
end $$;
