-- Refuses a payload in clear of a type that is published as encrypted, unless nodes of a version that reads it are alive,
-- as during an update; returns null otherwise. Without settings of its own, so that it is inlined.
create or replace function txqueue.check_encrypted(policy jsonb, work_type text, payload jsonb) returns text
language sql volatile
as $$
    select case
        when policy ? 'encrypted' and (not payload ? 'encrypted' or payload - 'encrypted' <> '{}')
             and not txqueue.is_read_in_clear(work_type)
            then txqueue.refuse(format('payloads of %s are encrypted, and this one is in clear', work_type),
                                 'enqueue it with a Python client that has TXQUEUE_PAYLOAD_KEY')
    end
$$;
