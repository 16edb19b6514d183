-- What else happens as jobs end, all in one way (done, failed or cancelled), in the transaction that ends
-- them. Only jobs that are marked as followed come here, and those that end because of them. Returns whether other
-- jobs may run because of it.
create or replace function @schema@.follow(ids bigint[], ended text) returns boolean
language plpgsql volatile
set search_path = @schema@, pg_temp
as $$
declare
    freed boolean := false;
    heirs record;
begin
    perform lock_children(ids);
    loop
        freed := follow_schedules(ids, ended) or freed;
        freed := follow_unique(ids) or freed;
        heirs := follow_children(ids, ended);
        freed := heirs.freed or freed;
        ids := heirs.cancelled;
        ended := 'cancelled';
        exit when ids = '{}';
    end loop;
    return freed;
end $$;
