-- Computes a key of a job from its payload, by the parts that its type has published: texts, and members, each with
-- the steps of its path and the defaults on it. Null if a member is null.
create or replace function txqueue.compute_key(its_type text, key text, parts jsonb, payload jsonb) returns text
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    computed text := '';
    part     jsonb;
    step     jsonb;
    member   jsonb;
begin
    for part in select value from jsonb_array_elements(parts) loop
        member := case jsonb_typeof(part) when 'string' then part else payload end;
        for step in select value from jsonb_array_elements(part -> 'path') loop
            member := coalesce(member -> (step ->> 0), step -> 1);
            if jsonb_typeof(member) = 'null' then
                return null;
            end if;
        end loop;
        computed := computed || coalesce(member_text(member, part ->> 'kind'), refuse_member(its_type, key, part, member));
    end loop;
    return computed;
end $$;
