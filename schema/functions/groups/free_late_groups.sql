-- Looks again at groups of which parked jobs were locked as they were to be readied: by an application that enqueues what
-- follows them, or a handler that took them along.
create or replace function txqueue.free_late_groups() returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    places tid[] := array(select ctid from late_group limit 1000 for update skip locked);
    keys   smallint[];
    groups text[];
begin
    if places <> '{}' then
        -- Of which another session holds the key, they are left for the next time.
        keys := try_keys(array(select distinct key_of("group") from late_group where ctid = any (places)));
        with gone as (
            delete from late_group where ctid = any (places) and key_of("group") = any (keys) returning "group"
        )
        select array_agg(distinct "group") into groups from gone;
        if groups is not null then
            perform free_groups(groups);
            perform wake_masters();
        end if;
    end if;
end $$;
