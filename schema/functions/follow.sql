-- What else happens as jobs end, all in one way (done, failed or cancelled), in the transaction that ends
-- them. Only jobs that are marked as followed come here. Returns whether other jobs may run because of it.
create or replace function @schema@.follow(ids bigint[], ended text) returns boolean
language plpgsql volatile
set search_path = @schema@, pg_temp
as $$
declare
    freed boolean := false;
begin
    freed := follow_schedules(ids, ended) or freed;
    return freed;
end $$;
