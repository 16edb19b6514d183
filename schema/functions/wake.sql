-- Tells sleeping masters that there is work; silent while every master is awake, because NOTIFY
-- takes a lock of the whole database at commit.
create or replace function @schema@.wake() returns void
language plpgsql volatile
set search_path = @schema@, pg_temp
as $$
begin
    if (select last_value = 1 from asleep) then
        perform pg_notify('@schema@', '');
    end if;
end $$;
