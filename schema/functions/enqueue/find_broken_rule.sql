-- The rule that an invalid job breaks; null for a valid job. Without settings of its own, so that it is
-- inlined, as every job passes it; refuse_job() has the texts of the errors.
create or replace function txqueue.find_broken_rule(
    work_type text, payload jsonb, payload_limit integer, priority integer, weight integer, queue text,
    "group" text, tenant text, not_before timestamptz, not_after timestamptz, options jsonb) returns text
language sql volatile
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
