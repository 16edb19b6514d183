-- Writes steps of running jobs, many with one commit: an array of objects with job_id, assignment, name, kind ('step',
-- 'cursor', 'call', or 'signal' to take a signal that is there), result, error, child_type of a call, signal (the name of that), and
-- is_over if the time to wait for it is over. Each names the token of its run. Returns a pair for each that was not refused, in any
-- order: its place, from 0, and for a signal the text of its value, or null if none is there. It waits for no job that
-- another session has locked: then it writes nothing, so that the caller tries each by itself.
create or replace function txqueue.write_steps(its_incarnation integer, given jsonb, out place integer, out value text)
returns setof record
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    ids    constant bigint[] := array(select distinct (each ->> 'job_id')::bigint from jsonb_array_elements(given) as each);
    held   bigint[];
    tokens bigint[];
    others bigint[];
    noted  integer := 0;
    said   record;
begin
    -- A run that has lost its job must not write: neither can the job go to another one before this commit.
    for search in 1 .. 16 loop
        select array_agg(job_id), array_agg(assignment) into held, tokens
          from (select job_id, assignment from job_assigned
                 where job_id = any (ids) and incarnation = its_incarnation
                 order by job_id for key share skip locked) as locked;
        -- Rotation may just have moved a job to another lane.
        exit when cardinality(held) = cardinality(ids);
    end loop;
    others := array(select job_id from job_assigned where job_id = any (held) and (options ? 'steps') is not true);
    if others <> '{}' then
        update job_assigned set options = coalesce(options, '{}') || '{"steps": true}'
         where job_id = any (array(select job_id from job_assigned where job_id = any (others) for no key update skip locked));
        get diagnostics noted = row_count;
    end if;
    if noted < cardinality(others) or cardinality(held) is distinct from cardinality(ids) and exists (
            select from job_assigned where job_id = any (ids) and incarnation = its_incarnation and (job_id = any (held)) is not true) then
        raise exception using errcode = 'lock_not_available', message = 'another session has locked a job';
    end if;
    insert into job_step (job_id, name, kind, result, error, child_type, ended_at)
    select job_id, name, kind, result, error, child_type, clock_timestamp()
      from jsonb_to_recordset(given) as each (
               job_id bigint, assignment bigint, name text, kind text, result jsonb, error text, child_type text)
     where ((job_id, assignment) in (select * from unnest(held, tokens))) is true and kind <> 'signal'
        on conflict (job_id, name) do update set result = excluded.result, error = excluded.error, child_type = excluded.child_type, ended_at = excluded.ended_at;
    for said in
        select each.place - 1 as place, job_id, name, kind, signal, is_over
          from rows from (jsonb_to_recordset(given) as (
                   job_id bigint, assignment bigint, name text, kind text, signal text, is_over boolean))
               with ordinality as each (job_id, assignment, name, kind, signal, is_over, place)
         where ((job_id, assignment) in (select * from unnest(held, tokens))) is true
    loop
        place := said.place;
        value := null;
        if said.kind = 'signal' then
            value := take_signal(said.job_id, said.name, said.signal);
            if value is null and said.is_over then
                update job_step set error = 'its time was over', ended_at = clock_timestamp()
                 where job_id = said.job_id and name = said.name and ended_at is null;
            end if;
        end if;
        return next;
    end loop;
end $$;
