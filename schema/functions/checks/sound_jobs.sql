-- Those of some jobs in some states whose rows can be read whole, so that they can move: an act of an operator on
-- several jobs leaves a damaged one as it is, and changes the others. See find_damage().
create or replace function txqueue.sound_jobs(ids bigint[], states job_state[]) returns bigint[]
language sql stable
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
    select array(
        select job_id from job
         where job_id = any (ids) and state = any (states)
           and find_damage(options, payload, result, progress, error) is null)
$$;
