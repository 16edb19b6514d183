-- Refuses an invalid job; returns null for a valid one. Without settings of its own, so that it is inlined.
create or replace function txqueue.check_job(
    work_type text, payload jsonb, payload_limit integer, priority integer, weight integer, queue text,
    "group" text, tenant text, not_before timestamptz, not_after timestamptz, options jsonb) returns text
language sql volatile
as $$
    select case
        when txqueue.find_broken_rule(work_type, payload, payload_limit, priority, weight, queue, "group", tenant, not_before, not_after, options)
             is not null
            then txqueue.refuse_job(work_type, payload, payload_limit, priority, weight, queue, "group", tenant, not_before, not_after, options)
    end
$$;
