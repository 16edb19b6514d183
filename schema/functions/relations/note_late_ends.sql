-- Records jobs for propagate_late_ends().
create or replace function txqueue.note_late_ends(ids bigint[]) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    if ids <> '{}' then
        insert into late_end select distinct id from unnest(ids) as id;
        perform setval('has_late_ends', 1);
    end if;
end $$;
