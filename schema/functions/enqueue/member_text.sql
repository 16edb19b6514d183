-- The text of a member of a payload in a key; null if the member is missing, or is not of its kind. Dates and UUIDs have
-- one spelling, so that equal ones have equal keys. Without settings of its own, so that it is inlined.
create or replace function txqueue.member_text(member jsonb, kind text) returns text
language sql immutable
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
