-- Enqueues one job in the caller's transaction; null means the work type's own policy.
-- Returns its number.
create or replace function txqueue.enqueue(
    work_type text, payload jsonb, queue text default null, priority integer default null,
    weight integer default null, not_before timestamptz default null, not_after timestamptz default null,
    "group" text default null, options jsonb default null, tenant text default null,
    "unique" text default null, unique_mode text default null,
    after bigint[] default null, after_any_end boolean default null)
returns bigint
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    facts     record;
    waits_for text;
    its_state job_state;
    refused   text;
    job_id    bigint := nextval('job_id');
    lane      smallint := current_lane();
begin
    select settings.payload_limit, settings.aging, known.work_type, known.priority, known.weight, known.policy, known.queue
      into strict facts
      from setting as settings left join work_type as known on known.work_type = enqueue.work_type;
    not_before := coalesce(not_before, now());
    queue := coalesce(queue, facts.queue, 'default');
    priority := coalesce(priority, facts.priority, 4);
    weight := coalesce(weight, facts.weight, 1);
    waits_for := case when facts.work_type is null then 'type' when not_before > now() then 'time' end;
    its_state := case when waits_for is null then 'ready' else 'waiting' end;
    refused := check_job(work_type, payload, facts.payload_limit, priority, weight, queue, "group", tenant, not_before, not_after, options);
    if facts.policy ? 'encrypted' then
        refused := check_encrypted(facts.policy, work_type, payload);
    end if;
    if exists (select from control as held where held.kind = 'queue' and held.is_full and held.key = enqueue.queue) then
        refused := refuse_full_queue(queue);
    end if;
    if "unique" is not null or unique_mode is not null or after is not null or after_any_end is not null then
        job_id := enqueue_related(jsonb_populate_record(null::job, jsonb_build_object(
            'job_id', job_id, 'rank', compute_rank(not_before, not_after, priority, facts.aging), 'not_before', not_before,
            'not_after', not_after, 'enqueued_at', now(), 'weight', weight, 'priority', priority, 'attempt', 0, 'deaths', 0,
            'lane', lane, 'state', its_state, 'waiting_for', waits_for, 'work_type', work_type, 'queue', queue, 'group', "group",
            'tenant', tenant, 'options', options, 'payload', payload)), "unique", unique_mode, after, after_any_end);
    else
        insert into job (job_id, rank, not_before, not_after, enqueued_at, weight, priority, lane, state,
                         waiting_for, work_type, queue, "group", tenant, options, payload)
        values (job_id, compute_rank(not_before, not_after, priority, facts.aging), not_before, not_after, now(), weight,
                priority, lane, its_state, waits_for, work_type, queue, "group", tenant, options, payload);
    end if;
    if tenant is not null then
        perform note_tenants();
    end if;
    -- Checked here as well, because calling the function costs more than the check.
    if has_sleeping_master() and not_before < now() + interval '3 seconds' then
        perform wake_masters();
    end if;
    return job_id;
end $$;
comment on function txqueue.enqueue(text, jsonb, text, integer, integer, timestamptz, timestamptz, text, jsonb, text,
    text, text, bigint[], boolean) is 'Enqueue one job in the caller''s transaction.';
