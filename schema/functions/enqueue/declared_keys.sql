-- The keys that a job gets from its type: group, tenant, and unique with its mode, as far as the type has published them
-- and the job does not name them. Clients that do not know the policy, as those of an older release of the application,
-- work as before: their jobs have no key that the payload does not give, and a published mode refuses none of them. With
-- the option keys = true, or with the setting keys_required, a job is refused that lacks a key of its type; with keys =
-- false it has only those that it names.
create or replace function txqueue.declared_keys(
    policy jsonb, its_type text, payload jsonb, options jsonb, named jsonb) returns jsonb
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    found    jsonb := '{}';
    is_bound boolean;
    name     text;
    parts    jsonb;
    key      text;
begin
    if jsonb_typeof(payload) is distinct from 'object' or options -> 'keys' = 'false' then
        return found;
    end if;
    is_bound := options -> 'keys' is not distinct from 'true' or (select keys_required from setting);
    for name, parts in select * from jsonb_each((policy -> 'keys') - 'unique_mode') loop
        continue when named ->> name is not null;
        key := compute_key(its_type, name, parts, payload, is_bound);
        if is_bound or length(key) between 1 and (case name when 'tenant' then 200 else 1000 end) then
            found := found || jsonb_build_object(name, key);
        end if;
    end loop;
    if found ->> 'unique' is not null and named ->> 'unique_mode' is null then
        found := found || jsonb_build_object('unique_mode', case
            when is_bound or policy #>> '{keys,unique_mode}' <> 'reject' then policy #>> '{keys,unique_mode}' else 'keep' end);
    end if;
    return jsonb_strip_nulls(found);
end $$;
