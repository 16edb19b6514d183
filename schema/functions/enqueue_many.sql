-- Enqueues an array of jobs, each an object with the arguments of enqueue() as its keys, in the
-- caller's transaction; returns their numbers in the order given. All are accepted or none.
-- The jobs are the outer side of a nested loop, which keeps their order; a hash join reversed it.
create or replace function @schema@.enqueue_many(jobs jsonb) returns bigint[]
language plpgsql volatile security definer
set search_path = @schema@, pg_temp
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
    settings  setting;
    ids       bigint[];
    is_soon   boolean;
begin
    select * into strict settings from setting;
    with given as (
        select element.*,
               known.work_type is not null as is_known,
               coalesce(element.priority, known.priority, 4) as its_priority,
               coalesce(element.not_before, now()) as its_not_before,
               coalesce(element.queue, known.queue, 'default') as its_queue,
               coalesce(element.weight, known.weight, 1) as its_weight
          from jsonb_to_recordset(jobs) as element (
                   work_type text, payload jsonb, queue text, priority integer, weight integer,
                   not_before timestamptz, not_after timestamptz, "group" text, options jsonb)
          left join work_type as known on known.work_type = element.work_type
    ), checked as (
        select given.*, nextval('job_id') as job_id,
               case
                   when work_type is null or length(work_type) not between 1 and 200
                       then refuse('a work type must have 1 to 200 characters', 'pass the name of a work type')
                   when payload is null or jsonb_typeof(payload) <> 'object'
                       then refuse(format('the payload of %s is not a JSON object', work_type),
                                   'pass an object with the fields of the work item')
                   when pg_column_size(payload) > settings.payload_limit
                       then refuse(format('the payload of %s has %s bytes, more than the limit of %s', work_type,
                                          pg_column_size(payload), settings.payload_limit),
                                   'store large data elsewhere and enqueue its key, or raise payload_limit in setting')
                   when its_priority not between 0 and 9
                       then refuse(format('priority %s is not within 0 to 9', its_priority), 'use 2 for low, 4 for normal, 7 for high')
                   when its_weight < 1
                       then refuse(format('weight %s is below 1', its_weight), 'use 1 for an ordinary job')
                   when length(its_queue) not between 1 and 200
                       then refuse('a queue name must have 1 to 200 characters', 'pass a shorter name')
                   when length("group") not between 1 and 1000
                       then refuse('a group must have 1 to 1000 characters', 'pass a shorter key, or null for no group')
                   when not_after <= its_not_before
                       then refuse(format('not_after %s is not later than not_before %s', not_after, its_not_before),
                                   'give a not_after that lies after not_before, or none')
               end as refused
          from given
    ), put as (
        insert into job (job_id, rank, not_before, not_after, enqueued_at, weight, priority, lane, state,
                         waiting_for, work_type, queue, "group", options, payload)
        select job_id,
               least(its_not_before - its_priority * settings.aging, not_after - 9 * settings.aging),
               its_not_before, not_after, now(), its_weight, its_priority, (job_id >> 12) & 7,
               case when is_known and its_not_before <= now() then 'ready'::job_state else 'waiting' end,
               case when not is_known then 'type' when its_not_before > now() then 'time' end,
               work_type, its_queue, "group", options, payload
          from checked
         where refused is null
        returning job_id, not_before
    )
    select array_agg(job_id order by job_id), min(not_before) < now() + interval '3 seconds'
      into ids, is_soon from put;
    if is_soon then
        perform wake();
    end if;
    return coalesce(ids, '{}');
end $$;
comment on function @schema@.enqueue_many(jsonb) is 'Enqueue many jobs in the caller''s transaction.';
