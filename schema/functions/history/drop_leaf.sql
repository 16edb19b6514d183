-- Drops a partition of history unless a session uses history for longer than an instant: the lock that it
-- needs on the whole table would make other sessions wait behind it.
create or replace function txqueue.drop_leaf(leaf text) returns boolean
language plpgsql volatile
set search_path = txqueue, pg_temp
set lock_timeout = '50ms'
as $$
begin
    execute format('drop table %I', leaf);
    return true;
exception when lock_not_available then
    return false;
end $$;
