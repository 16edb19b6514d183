-- Keys of types, and locks on keys: what programs call comes first, then its steps and what they use.

-- The key under whose lock a group's parked jobs, or the allowance of a limited queue or tenant, may be touched. Several
-- share one.
create or replace function txqueue.key_of(name text) returns smallint
language sql immutable  -- inlined
as $$
    select (hashtextextended(name, 839) & 16383)::smallint
$$;

-- Locks keys until the end of the transaction, in sorted order, as all sessions that wait for keys do. Keys
-- are rows: a login without rights on the schema cannot lock them, and they use no slots of the server's lock
-- table.
create or replace function txqueue.lock_keys(keys smallint[]) returns void
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
begin
    perform from key_lock where key = any (keys) order by key for update;
end $$;

-- Takes a duty until the end of the transaction, unless another session has it: one session at a time does it
-- for all.
create or replace function txqueue.try_duty(its_name text) returns boolean
language plpgsql volatile
as $$
begin
    perform from duty where name = its_name for update skip locked;
    return found;
end $$;

-- Locks those of some keys that no other session has, without waiting; returns them.
create or replace function txqueue.try_keys(keys smallint[]) returns smallint[]
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $$
begin
    return array(select key from key_lock where key = any (keys) order by key for update skip locked);
end $$;

-- The keys that a job gets from its type: group, tenant, and unique with its mode, as far as the type has published them
-- and the job does not name them. Clients that do not know the policy, as those of an older release of the application,
-- work as before: their jobs have no key that the payload does not give, and a published mode refuses none of them. With
-- the option keys = true, or with the setting keys_required, a job is refused that lacks a key of its type; with keys =
-- false it has only those that it names.
create or replace function txqueue.declared_keys(
    policy jsonb, its_type text, payload jsonb, options jsonb, named jsonb) returns jsonb
language plpgsql volatile
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

-- Computes a key of a job from its payload, by the parts that its type has published: texts, and members, each with
-- the steps of its path and the defaults on it; no parts for a key that only its class can compute. Null if a member is
-- null. What cannot be computed is refused if the type's policy binds the job, and null otherwise.
create or replace function txqueue.compute_key(
    its_type text, key text, parts jsonb, payload jsonb, is_bound boolean default true) returns text
language plpgsql volatile
as $$
declare
    computed text := case when jsonb_typeof(parts) = 'array' then '' when is_bound then refuse(
        format('the %s key of %s is computed by its class, which the database does not have', key, its_type),
        format('pass %s as an argument, or {"keys": false} as options (--no-keys) for none; the database computes a Key of fields of a work item, not one of a Django task''s parameters', key)) end;
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

-- Options without the one that is only for enqueueing.
create or replace function txqueue.without_keys_option(options jsonb) returns jsonb
language sql immutable  -- inlined
as $$
    select case when options ? 'keys' then nullif(options - 'keys', '{}') else options end
$$;
