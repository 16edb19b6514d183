-- The lane that jobs enqueued now go to. Rotation leaves it alone; whatever moves goes there.
create or replace function @schema@.current_lane() returns smallint
language sql volatile
set search_path = @schema@, pg_temp
as $$ select lane_of(last_value) from job_id $$;
