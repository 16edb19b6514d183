-- The keys that a job gets from its type: group, tenant, and unique with its mode, as far as the type has published them
-- and the job does not name them. A key that only the class can compute must be named, unless the setting
-- keys_required is off. With the option keys = false the job has only those that it names.
create or replace function txqueue.declared_keys(
    policy jsonb, its_type text, payload jsonb, options jsonb, named jsonb) returns jsonb
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    found jsonb := '{}';
    name  text;
    parts jsonb;
begin
    if jsonb_typeof(payload) is distinct from 'object' or options -> 'keys' = 'false' then
        return found;
    end if;
    for name, parts in select * from jsonb_each((policy -> 'keys') - 'unique_mode') loop
        if named ->> name is not null then
            continue;
        elsif jsonb_typeof(parts) = 'null' then
            perform refuse_computed(its_type, name);
        else
            found := found || jsonb_build_object(name, compute_key(its_type, name, parts, payload));
        end if;
    end loop;
    if found ->> 'unique' is not null and named ->> 'unique_mode' is null then
        found := found || jsonb_build_object('unique_mode', policy -> 'keys' -> 'unique_mode');
    end if;
    return jsonb_strip_nulls(found);
end $$;
