-- Enqueues an array of jobs for enqueue_many(), and for clients that write no other keys: the search for such
-- keys costs a twentieth of what it takes to write the jobs.
-- The jobs are the outer side of a nested loop, which keeps their order; a hash join reversed it.
create or replace function txqueue.enqueue_checked(jobs jsonb) returns bigint[]
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
    settings  setting;
    ids       bigint[];
    is_soon   boolean;
    has_tenant boolean;
    its_lane  smallint := current_lane();
    keyed     constant jsonb := (select jsonb_agg(work_type) from work_type where policy ? 'keys');
    limited   constant control[] := array(select control from control where backlog is not null);
    full_queues text[];
begin
    if limited <> '{}' then
        full_queues := array(select key from unnest(limited) where is_full);
    end if;
    -- Each of these paths costs a hundredth of what it takes to write the jobs.
    if keyed is not null and jsonb_path_exists(jobs, '$[*].work_type ? (@ == $keyed[*])', jsonb_build_object('keyed', keyed)) then
        jobs := with_keys(jobs);
    end if;
    if jobs @? '$[*]."unique"' or jobs @? '$[*].after' then
        return enqueue_each(jobs);
    end if;
    select * into strict settings from setting;
    with given as (
        select element.*,
               known.work_type is not null as is_known, known.policy,
               coalesce(element.priority, known.priority, 4) as its_priority,
               coalesce(element.not_before, now()) as its_not_before,
               coalesce(element.queue, known.queue, 'default') as its_queue,
               coalesce(element.weight, known.weight, 1) as its_weight
          from jsonb_to_recordset(jobs) as element (
                   work_type text, payload jsonb, queue text, priority integer, weight integer,
                   not_before timestamptz, not_after timestamptz, "group" text, options jsonb, tenant text,
                   unique_mode text)
          left join work_type as known on known.work_type = element.work_type
    ), checked as (
        select given.*, nextval('job_id') as job_id,
               coalesce(check_job(work_type, payload, settings.payload_limit, its_priority, its_weight, its_queue, "group",
                                  tenant, its_not_before, not_after, options),
                        case when unique_mode is not null or options ?| array['as_of', 'once_for'] then refuse_keyless() end,
                        check_encrypted(policy, work_type, payload),
                        case when its_queue = any (full_queues) then refuse_full_queue(its_queue) end) as refused
          from given
    ), put as (
        insert into job (job_id, rank, not_before, not_after, enqueued_at, weight, priority, lane, state,
                         waiting_for, work_type, queue, "group", tenant, options, payload)
        select job_id,
               compute_rank(its_not_before, not_after, its_priority, settings.aging),
               its_not_before, not_after, now(), its_weight, its_priority, its_lane,
               case when is_known and its_not_before <= now() then 'ready'::job_state else 'waiting' end,
               case when not is_known then 'type' when its_not_before > now() then 'time' end,
               work_type, its_queue, "group", tenant, without_keys_option(options), payload
          from checked
         where refused is null
        returning job_id, not_before, tenant
    )
    select array_agg(job_id order by job_id), min(not_before) < now() + interval '5 seconds', count(tenant) > 0
      into ids, is_soon, has_tenant from put;
    if limited <> '{}' then
        -- As many of them for each job as enqueue() counts.
        perform refuse_full_queue(key) from unnest(limited)
          where backlog <= 10000 * cardinality(ids) and count_backlog(key, backlog + 1) > backlog
            and exists (select from job where job_id = any (ids) and state in ('waiting', 'ready') and queue = key);
    end if;
    if has_tenant then
        perform note_tenants();
    end if;
    if is_soon then
        perform wake_masters(cardinality(ids));
    end if;
    return coalesce(ids, '{}');
end $$;
