-- All facts about why a job does not run, as one object: those that blocker_facts() has, and in others, by number,
-- those of the jobs that it waits for, and of theirs, twenty in all. Null if there is no such job.
create or replace function txqueue.explain_facts(its_job_id bigint) returns jsonb
language sql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$ select facts from related_facts(its_job_id, '{}') $$;
