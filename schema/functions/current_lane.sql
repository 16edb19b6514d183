-- The lane that jobs becoming ready go to, until rotation moves on to the next. Without settings of
-- its own: they would cost more than what it does.
create or replace function @schema@.current_lane() returns smallint
language sql volatile
as $$ select last_value from @schema@.lane $$;
