-- Refuses what cannot be a job; null for what can. Without settings of its own, so that it is inlined.
create or replace function @schema@.check_job(
    work_type text, payload jsonb, payload_limit integer, priority integer, weight integer, queue text,
    "group" text, tenant text, not_before timestamptz, not_after timestamptz) returns text
language sql volatile
as $$
    select case
        when work_type is null or length(work_type) not between 1 and 200
            then @schema@.refuse('a work type must have 1 to 200 characters', 'pass the name of a work type')
        when payload is null or jsonb_typeof(payload) <> 'object'
            then @schema@.refuse(format('the payload of %s is not a JSON object', work_type),
                                 'pass an object with the fields of the work item')
        when pg_column_size(payload) > payload_limit
            then @schema@.refuse(format('the payload of %s has %s bytes, more than the limit of %s', work_type,
                                        pg_column_size(payload), payload_limit),
                                 'store large data elsewhere and enqueue its key, or raise payload_limit in setting')
        when priority not between 0 and 9
            then @schema@.refuse(format('priority %s is not within 0 to 9', priority), 'use 2 for low, 4 for normal, 7 for high')
        when weight < 1
            then @schema@.refuse(format('weight %s is below 1', weight), 'use 1 for an ordinary job')
        when length(queue) not between 1 and 200
            then @schema@.refuse('a queue name must have 1 to 200 characters', 'pass a shorter name')
        when length("group") not between 1 and 1000
            then @schema@.refuse('a group must have 1 to 1000 characters', 'pass a shorter key, or null for no group')
        when length(tenant) not between 1 and 200
            then @schema@.refuse('a tenant must have 1 to 200 characters', 'pass a shorter key, or null for no tenant')
        when not_after <= not_before
            then @schema@.refuse(format('not_after %s is not later than not_before %s', not_after, not_before),
                                 'give a not_after that lies after not_before, or none')
    end
$$;
