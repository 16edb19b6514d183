-- The form in which an action names jobs.
create or replace function txqueue.format_job_ids(ids bigint[]) returns text
language sql immutable
set search_path = txqueue, pg_temp
as $$ select case cardinality(ids) when 1 then 'job ' || ids[1] else cardinality(ids) || ' jobs' end $$;
