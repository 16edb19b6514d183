-- Computes a key of a job from its payload, by the parts that its type has published: texts, and members, each with
-- the steps of its path and the defaults on it; no parts for a key that only its class can compute. Null if a member is
-- null. What cannot be computed is refused if the type's policy binds the job, and null otherwise.
create or replace function txqueue.compute_key(
    its_type text, key text, parts jsonb, payload jsonb, is_bound boolean default true) returns text
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    computed text := case when jsonb_typeof(parts) = 'array' then '' when is_bound then refuse_computed(its_type, key) end;
    part     jsonb;
    step     jsonb;
    member   jsonb;
begin
    for part in select value from jsonb_array_elements(case when computed is null then '[]' else parts end) loop
        member := case jsonb_typeof(part) when 'string' then part else payload end;
        for step in select value from jsonb_array_elements(part -> 'path') loop
            member := coalesce(member -> (step ->> 0), step -> 1);
            if jsonb_typeof(member) = 'null' then
                return null;
            end if;
        end loop;
        computed := computed || coalesce(member_text(member, part ->> 'kind'),
                                         case when is_bound then refuse_member(its_type, key, part, member) end);
    end loop;
    return computed;
end $$;
