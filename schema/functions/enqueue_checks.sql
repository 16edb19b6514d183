-- What enqueue refuses: what programs call comes first, then its steps and what they use.

-- Refuses a job because its queue is full, with an error of its own: the job may be enqueued later.
create or replace function txqueue.refuse_full_queue(its_queue text) returns text
language plpgsql volatile
as $$
begin
    raise exception using errcode = 'TXQ02', message = format('the queue %s is full', its_queue),
        hint = format('enqueue it again later, or raise the limit: txqueue limit queue %s --backlog N',
                      case when its_queue ~ E'^-|[\\u0001-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]' then 'NAME'
                           when its_queue ~ '^[A-Za-z0-9_@%+=:,./-]+$' then its_queue
                           else '''' || replace(its_queue, '''', '''"''"''') || '''' end);
end $$;

-- Refuses a payload in clear of a type that is published as encrypted, unless nodes of a version that reads it are alive,
-- as during an update; returns null otherwise.
create or replace function txqueue.check_encrypted(policy jsonb, work_type text, payload jsonb) returns text
language sql volatile  -- inlined
as $$
    select case
        when policy ? 'encrypted' and (not payload ? 'encrypted' or payload - 'encrypted' <> '{}')
             and not txqueue.is_read_in_clear(work_type)
            then txqueue.refuse(format('payloads of %s are encrypted, and this one is in clear', work_type),
                                 'enqueue it with a Python client that has TXQUEUE_PAYLOAD_KEY')
    end
$$;

-- Whether a live node has a version of a type whose payloads are not encrypted.
create or replace function txqueue.is_read_in_clear(its_type text) returns boolean
language sql stable security definer
as $$
    select exists (
        select from node_info as node, jsonb_array_elements_text(coalesce(report -> 'type_versions', to_jsonb(type_versions))) as each (name)
         where node.state in ('alive', 'draining')
           and starts_with(each.name, its_type || '#') and not starts_with(each.name, its_type || '#encrypted-'))
$$;

-- Refuses an invalid job; returns null for a valid one.
create or replace function txqueue.check_job(
    work_type text, payload jsonb, payload_limit integer, priority integer, weight integer, queue text,
    "group" text, tenant text, not_before timestamptz, not_after timestamptz, options jsonb) returns text
language sql volatile  -- inlined
as $$
    select case
        when txqueue.find_broken_rule(work_type, payload, payload_limit, priority, weight, queue, "group", tenant, not_before, not_after, options)
             is not null
            then txqueue.refuse_job(work_type, payload, payload_limit, priority, weight, queue, "group", tenant, not_before, not_after, options)
    end
$$;

-- The rule that an invalid job breaks; null for a valid job.
create or replace function txqueue.find_broken_rule(
    work_type text, payload jsonb, payload_limit integer, priority integer, weight integer, queue text,
    "group" text, tenant text, not_before timestamptz, not_after timestamptz, options jsonb) returns text
language sql volatile  -- inlined
as $$
    select case
        when work_type is null or length(work_type) not between 1 and 200 then 'work_type'
        when payload is null or jsonb_typeof(payload) <> 'object' then 'payload'
        -- Most payloads are short: this avoids a function call, which would cost as much as all other checks.
        when octet_length(payload::text) > least(payload_limit, 4300) and txqueue.find_broken_length(payload, payload_limit) is not null
            then txqueue.find_broken_length(payload, payload_limit)
        when priority not between 0 and 9 then 'priority'
        when weight not between 1 and 1000000 then 'weight'
        when length(queue) not between 1 and 200 then 'queue'
        when length("group") not between 1 and 1000 then 'group'
        when length(tenant) not between 1 and 200 then 'tenant'
        when not_before not between '1900-01-01Z' and '9998-12-31 23:59:59.999999Z' and not_before <> 'infinity' then 'moment'
        when not_after not between '1900-01-01Z' and '9998-12-31 23:59:59.999999Z' and not_after <> 'infinity' then 'moment'
        when not_after <= not_before then 'not_after'
        when options is not null and txqueue.find_broken_option(options) is not null then 'options'
    end
$$;

-- The rule that a payload's text breaks: the length limit, or a number with more digits than Python parses
-- (4,300: see sys.set_int_max_str_digits); null for none.
create or replace function txqueue.find_broken_length(payload jsonb, payload_limit integer) returns text
language sql stable  -- inlined
as $$
    select case when octet_length(payload::text) > payload_limit then 'size'
                when payload::text !~ '[0-9.]{255}' then null
                when exists (select from jsonb_path_query(payload, 'strict $.**') as value
                              where jsonb_typeof(value) = 'number' and length(value::text) > 4300) then 'digits' end
$$;

-- The option of a job that a worker could not obey, or that only txqueue may set; null for none.
create or replace function txqueue.find_broken_option(options jsonb) returns text
language sql volatile  -- inlined
as $$
    select case
        when options is null then null
        when jsonb_typeof(options) <> 'object' then 'options'
        when octet_length(options::text) > 65536 then 'size'
        when options ?| array['parents', 'after', 'after_any_end', 'grouped', 'left'] then 'reserved'
        when options - txqueue.known_options() <> '{}' then 'unknown'
        when options ? 'timeout' and not case jsonb_typeof(options -> 'timeout')
            when 'number' then (options ->> 'timeout')::numeric > 0 and (options ->> 'timeout')::numeric <= 315360000
            else false end then 'timeout'
        when options ? 'attempts' and not case jsonb_typeof(options -> 'attempts')
            when 'number' then (options ->> 'attempts')::numeric between 1 and 32767 and (options ->> 'attempts')::numeric % 1 = 0
            else false end then 'attempts'
        when jsonb_typeof(options -> 'expires') <> 'boolean' then 'expires'
        when jsonb_typeof(options -> 'redacted') <> 'boolean' then 'redacted'
        when jsonb_typeof(options -> 'keys') <> 'boolean' then 'keys'
        -- As is_traceparent of model/enqueue_options; one regular expression for all of it would take five times as long.
        when options ? 'traceparent' and (
             options ->> 'traceparent' like '__-________________________________-________________-__'
             and options ->> 'traceparent' ~ '^[0-9a-f-]+$'
             and length(replace(options ->> 'traceparent', '-', '')) = 52
             and options ->> 'traceparent' not like 'ff%'
             and options ->> 'traceparent' not like '%-00000000000000000000000000000000-%'
             and options ->> 'traceparent' not like '%-0000000000000000-%') is not true then 'traceparent'
        when jsonb_typeof(options -> 'tracestate') <> 'string' then 'tracestate'
        when options ? 'tags' and txqueue.has_broken_tag(options -> 'tags') then 'tags'
    end
$$;

-- The names of a job's options: those of clients, and, last, the three that schedules add, which no hint offers.
create or replace function txqueue.known_options() returns text[]
language sql immutable  -- inlined
as $$
    select array['attempts', 'timeout', 'expires', 'as_of', 'once_for', 'created_by', 'tags', 'redacted', 'traceparent',
                 'tracestate', 'traced_at', 'keys', 'schedule', 'due', 'zone']
$$;

-- Whether tags are not valid: an object of at most 10 texts of at most 200 characters without control
-- characters, with names of 1 to 50 letters, digits, _ . and -. Only called for a job that has tags.
create or replace function txqueue.has_broken_tag(tags jsonb) returns boolean
language sql stable  -- inlined
as $$
    select case when jsonb_typeof(tags) <> 'object' then true else (
        select count(*) > 10 or coalesce(bool_or(
                   key !~ '^[A-Za-z0-9_.-]{1,50}$' or jsonb_typeof(value) <> 'string' or length(value #>> '{}') > 200
                   or value #>> '{}' ~ E'[\\x01-\\x1f\\x7f-\\x9f]'), false)
          from jsonb_each(tags)) end
$$;

-- Raises the error of an invalid job.
create or replace function txqueue.refuse_job(
    work_type text, payload jsonb, payload_limit integer, priority integer, weight integer, queue text,
    "group" text, tenant text, not_before timestamptz, not_after timestamptz, options jsonb) returns text
language plpgsql volatile
as $$
begin
    return case find_broken_rule(work_type, payload, payload_limit, priority, weight, queue, "group", tenant, not_before, not_after, options)
        when 'work_type' then refuse('a work type must have 1 to 200 characters', 'pass the name of a work type')
        when 'payload' then refuse(format('the payload of %s is not a JSON object', work_type),
                                   'pass an object with the fields of the work item')
        when 'size' then refuse(format('the payload of %s has %s bytes, more than the limit of %s', work_type,
                                       octet_length(payload::text), payload_limit),
                                'store large data elsewhere and enqueue its key, or raise payload_limit in setting')
        when 'digits' then refuse(format('the payload of %s has a number of more than 4300 digits', work_type),
                                  'pass it as a string')
        when 'priority' then refuse(format('priority %s is not within 0 to 9', priority), 'use 2 for low, 4 for normal, 7 for high')
        when 'weight' then refuse(format('weight %s is not within 1 to 1000000', weight), 'use 1 for an ordinary job')
        when 'queue' then refuse('a queue name must have 1 to 200 characters',
                                 case queue when '' then 'pass a name' else 'pass a shorter name' end)
        when 'group' then refuse('a group must have 1 to 1000 characters', 'pass a shorter key, or null for no group')
        when 'tenant' then refuse('a tenant must have 1 to 200 characters', 'pass a shorter key, or null for no tenant')
        when 'moment' then refuse(format('%s is not between the years 1900 and 9998',
                                         case when not_before <> 'infinity' and not_before not between '1900-01-01Z' and '9998-12-31 23:59:59.999999Z'
                                              then 'not_before' else 'not_after' end),
                                  'give another moment, or infinity for never')
        when 'options' then refuse_option(options)
        when 'not_after' then refuse(format('not_after %s is not later than not_before %s', not_after, not_before),
                                     'give a not_after that lies after not_before, or none')
    end;
end $$;

-- Raises the error of options that a worker could not obey. It shows no value: the server may log the error.
create or replace function txqueue.refuse_option(options jsonb) returns text
language plpgsql volatile
as $$
declare
    broken text := find_broken_option(options);
    known  constant text[] := known_options();
    wrong  text;
begin
    if broken = 'unknown' then
        select left(min(key), 200) into wrong from jsonb_object_keys(options) as key where key <> all (known);
        return refuse(format('there is no option %s', wrong), case
            when wrong = any ('{queue,priority,weight,not_before,not_after,group,tenant,unique,unique_mode}')
                then 'pass it as an argument of its own, not among the options'
            -- The last three are those of schedules.
            else 'use ' || array_to_string(trim_array(known, 3), ', ') end);
    end if;
    return case broken
        when 'options' then refuse('options is not a JSON object', 'pass an object, or null for none')
        when 'size' then refuse('the options are longer than 65536 bytes', 'put data into the payload')
        when 'reserved' then refuse('parents, after, after_any_end, grouped and left are not options that can be given',
                                    'leave them out; pass after as an argument of its own')
        when 'timeout' then refuse('timeout is not within 0 and ten years of seconds',
                                   'give seconds above 0 as a number, or leave it out')
        when 'attempts' then refuse('attempts is not a whole number from 1 to 32767', 'give how many runs the job gets in all')
        when 'traceparent' then refuse('traceparent is not a header of W3C Trace Context',
                                       'give one like 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01, or leave it out')
        when 'tracestate' then refuse('tracestate is not text', 'give the header tracestate of W3C Trace Context, or leave it out')
        when 'tags' then refuse('tags are not an object of at most 10 texts of up to 200 characters without control characters',
                                'name each with 1 to 50 letters, digits, _ . or -, as in {"campaign": "spring"}')
        else refuse(format('%s is neither true nor false', broken), 'give true or false, or leave it out')
    end;
end $$;

-- Whether a payload is a JSON object that breaks no rule, as those about its size and digits hold for all so short.
create or replace function txqueue.is_short_object(payload jsonb, payload_limit integer) returns boolean
language sql immutable  -- inlined
as $$
    select octet_length(payload::text) <= case jsonb_typeof(payload) when 'object' then least(payload_limit, 4300) end
$$;

-- The text of a member of a payload in a key; null if the member is missing, or is not of its kind. Dates and UUIDs have
-- one spelling, so that equal ones have equal keys.
create or replace function txqueue.member_text(member jsonb, kind text) returns text
language sql immutable  -- inlined
as $$
    select case jsonb_typeof(member)
        when 'string' then case coalesce(kind, 'text')
            when 'text' then member #>> '{}'
            when 'date' then substring(member #>> '{}' from '^[0-9]{4}-[0-9]{2}-[0-9]{2}$')
            when 'uuid' then lower(substring(member #>> '{}' from '^[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$')) end
        when 'number' then case kind when 'integer' then substring(member::text from '^-?[0-9]+$') end
        when 'boolean' then case kind when 'boolean' then member::text end
    end
$$;

-- The length of a payload as text, in which it travels. A payload with a small stored size is counted by
-- that: converting millions of small payloads would cost more than the limit of a claim is worth.
create or replace function txqueue.payload_octets(payload jsonb) returns integer
language sql stable  -- inlined
as $$
    select case when pg_column_size(payload) < 64 then pg_column_size(payload) else octet_length(payload::text) end
$$;

-- Refuses what says how a job with a unique key is enqueued, for a job without one.
create or replace function txqueue.refuse_keyless() returns text
language plpgsql volatile
as $$
begin
    perform refuse('unique_mode, as_of and once_for are about a unique key, and the job has none',
                   'pass the key as unique, or declare it on the class');
end $$;

-- Raises the error of a payload without a member that a key of its type is made of. It shows no value.
create or replace function txqueue.refuse_member(its_type text, key text, part jsonb, member jsonb) returns text
language plpgsql volatile
as $$
declare
    path constant text := (select string_agg(step ->> 0, '.' order by place)
                             from jsonb_array_elements(part -> 'path') with ordinality as steps (step, place));
    wanted constant text := case part ->> 'kind' when 'integer' then 'a whole number' when 'boolean' then 'true or false'
        when 'date' then 'a date, as in "2026-11-30"' when 'uuid' then 'a UUID with hyphens' else 'text' end;
begin
    return refuse(format('the %s key of %s is made of %s, which the payload %s', key, its_type, path,
                         case when member is null then 'does not have' else 'does not have as ' || wanted end),
                  format('give %s as %s; or pass {"keys": false} as options (--no-keys), with the keys that the job needs',
                         path, wanted));
end $$;
