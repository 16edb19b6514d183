-- Notes jobs that are to be looked at again.
create or replace function txqueue.note_unfollowed(ids bigint[]) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    if ids <> '{}' then
        insert into unfollowed select distinct id from unnest(ids) as id;
        perform setval('has_unfollowed', 1);
    end if;
end $$;
