-- All facts about why a job does not run, as one object: those that blocker_facts() has, and in others, by number,
-- those of the jobs that it waits for, and of theirs, twenty in all. Null if there is no such job.
create or replace function txqueue.explain_facts(its_job_id bigint) returns jsonb
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    most   constant integer := 20;
    facts  jsonb := blocker_facts(its_job_id);
    others jsonb := '{}';
    left_  bigint[] := array(select value::bigint from jsonb_array_elements_text(facts -> 'behind') as value);
    seen   bigint[] := array[its_job_id];
    its    jsonb;
begin
    while cardinality(left_) > 0 and cardinality(seen) <= most loop
        its := blocker_facts(left_[1]);
        seen := seen || left_[1];
        if its is not null then
            others := others || jsonb_build_object(left_[1]::text, its);
        end if;
        left_ := array(
            select each from unnest(left_[2:] || array(
                select value::bigint from jsonb_array_elements_text(its -> 'behind') as value)) as each
             where each <> all (seen));
    end loop;
    return facts || jsonb_build_object('others', others);
end $$;
