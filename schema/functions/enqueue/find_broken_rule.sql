-- Which rule what cannot be a job breaks; null for what can. Without settings of its own, so that it is inlined:
-- all that is enqueued goes through it, and what it would say of a fault stands in refuse_job().
create or replace function txqueue.find_broken_rule(
    work_type text, payload jsonb, payload_limit integer, priority integer, weight integer, queue text,
    "group" text, tenant text, not_before timestamptz, not_after timestamptz, options jsonb) returns text
language sql volatile
as $$
    select case
        when work_type is null or length(work_type) not between 1 and 200 then 'work_type'
        when payload is null or jsonb_typeof(payload) <> 'object' then 'payload'
        -- Most are short: they are written out once, and no function is called, which would cost as much as all of this.
        when octet_length(payload::text) > least(payload_limit, 4300) and txqueue.find_broken_length(payload, payload_limit) is not null
            then txqueue.find_broken_length(payload, payload_limit)
        when priority not between 0 and 9 then 'priority'
        when weight not between 1 and 1000000 then 'weight'
        when length(queue) not between 1 and 200 then 'queue'
        when length("group") not between 1 and 1000 then 'group'
        when length(tenant) not between 1 and 200 then 'tenant'
        when not_before not between '1900-01-01Z' and '9998-12-31Z' and not_before <> 'infinity' then 'moment'
        when not_after not between '1900-01-01Z' and '9998-12-31Z' and not_after <> 'infinity' then 'moment'
        when not_after <= not_before then 'not_after'
        when options is not null and txqueue.find_broken_option(options) is not null then 'options'
    end
$$;
