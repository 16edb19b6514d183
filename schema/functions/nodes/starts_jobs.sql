-- Whether a node that reports this may claim, and has a worker that can start jobs; one that reports no number of
-- workers counts as having one.
create or replace function txqueue.starts_jobs(report jsonb) returns boolean
language sql stable
set search_path = txqueue, pg_temp
as $$
    select coalesce((report ->> 'may_claim')::boolean, true)
       and coalesce((report ->> 'workers')::integer, 1)
         > coalesce((select sum(value::integer) from jsonb_each_text(report -> 'closed')), (report ->> 'unable')::integer, 0)
$$;
