-- The facts of explain_facts() about one job. known has what blocker_facts() has returned already, by number, so that it
-- is asked once for each job when many are explained.
create or replace function txqueue.related_facts(its_job_id bigint, inout known jsonb, out facts jsonb)
language plpgsql volatile
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    most   constant integer := 20;
    others jsonb := '{}';
    seen   bigint[] := '{}';
    left_  bigint[] := array[its_job_id];
    its    jsonb;
begin
    while cardinality(left_) > 0 and cardinality(seen) <= most loop
        if not known ? left_[1]::text then
            known := known || jsonb_build_object(left_[1]::text, blocker_facts(left_[1]));
        end if;
        its := nullif(known -> left_[1]::text, 'null');
        if seen = '{}' then
            facts := its;
        elsif its is not null then
            others := others || jsonb_build_object(left_[1]::text, its);
        end if;
        seen := seen || left_[1];
        left_ := array(
            select each from unnest(left_[2:] || array(
                select value::bigint from jsonb_array_elements_text(its -> 'behind') as value)) as each
             where each <> all (seen));
    end loop;
    facts := facts || jsonb_build_object('others', others);
end $$;
