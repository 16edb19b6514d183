-- Raises the error of an invalid job.
create or replace function txqueue.refuse_job(
    work_type text, payload jsonb, payload_limit integer, priority integer, weight integer, queue text,
    "group" text, tenant text, not_before timestamptz, not_after timestamptz, options jsonb) returns text
language plpgsql volatile
set search_path = txqueue, pg_temp
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
