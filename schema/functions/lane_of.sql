-- The lane of a job by its number: runs of 4096 jobs go to one lane, then to the next.
create or replace function @schema@.lane_of(job_id bigint) returns smallint
language sql immutable parallel safe
set search_path = @schema@, pg_temp
as $$ select ((job_id >> 12) & 7)::smallint $$;
