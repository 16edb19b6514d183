-- The option of a job that a worker could not obey, or that only txqueue may set; null for none. Without
-- settings of its own, so that it is inlined.
create or replace function txqueue.find_broken_option(options jsonb) returns text
language sql volatile
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
