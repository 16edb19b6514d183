-- The lane that jobs becoming ready go to, until rotation moves on to the next.
create or replace function @schema@.current_lane() returns smallint
language sql volatile
set search_path = @schema@, pg_temp
as $$ select last_value from lane $$;
