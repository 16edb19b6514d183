-- Refuses a payload in clear of a type that is published as encrypted; returns null otherwise. Without
-- settings of its own, so that it is inlined.
create or replace function txqueue.check_encrypted(policy jsonb, work_type text, payload jsonb) returns text
language sql volatile
as $$
    select case
        when policy ? 'encrypted' and (not payload ? 'encrypted' or payload - 'encrypted' <> '{}')
            then txqueue.refuse(format('payloads of %s are encrypted, and this one is in clear', work_type),
                                 'enqueue it with a Python client that has TXQUEUE_PAYLOAD_KEY')
    end
$$;
