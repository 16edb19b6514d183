-- Drops a partition of history unless a session uses history for longer than an instant: the lock
-- that it takes on the whole of it would keep everybody else waiting behind.
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
