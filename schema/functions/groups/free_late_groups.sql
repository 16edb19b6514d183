-- Retries groups whose parked jobs were locked when they should have become ready: by an application that
-- enqueues a follower, or by a handler that coalesced them.
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
        -- Groups whose key another session holds are left for the next call.
        keys := try_keys(array(select distinct key_of("group") from late_group where ctid = any (places)));
        with gone as (
            delete from late_group where ctid = any (places) and key_of("group") = any (keys) returning "group"
        )
        select array_agg(distinct "group") into groups from gone;
        if groups is not null then
            perform free_groups(groups);
            perform wake_masters(cardinality(groups));
        end if;
    end if;
end $$;
