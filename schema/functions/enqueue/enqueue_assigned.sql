-- Enqueues one job in the caller's transaction as enqueue() does, but already assigned to a node that granted
-- the caller credit: after the commit the caller notifies that node, and no claim is needed. Returns the
-- job's number, assignment, lane and weight; the assignment is null if the job must be claimed, because it
-- needs a decision (group, tenant, a later time, a not_after, a limit or pause of its queue), because it is heavy
-- and another node less loaded, because that run of the node is no longer alive, or does not serve the queue or the type, or because the transaction is one
-- whose jobs must be claimed.
--
-- No row of the node is locked: rescue() finds jobs that are committed after their node has died.
create or replace function txqueue.enqueue_assigned(
    its_node integer, its_incarnation integer,
    work_type text, payload jsonb, queue text default null, priority integer default null,
    weight integer default null, not_before timestamptz default null, not_after timestamptz default null,
    "group" text default null, options jsonb default null, tenant text default null,
    out job_id bigint, out assignment bigint, out lane smallint, out its_weight integer)
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    facts   record;
    refused text;
begin
    -- Most jobs, as in enqueue(): one statement reads and writes; what follows is for those that it does not take.
    if num_nonnulls(queue, priority, weight, not_before, not_after, "group", options, tenant) = 0
       and not has_limits() and may_assign_at_once() then
        insert into job_assigned (job_id, rank, not_before, enqueued_at, assigned_at, assignment, node_id, incarnation,
                                  weight, priority, lane, state, work_type, queue, handed, payload)
        select nextval('job_id'), compute_rank(now(), null, known.priority, settings.aging), now(), now(), clock_timestamp(),
               next_assignment(), node.node_id, node.incarnation, 1, known.priority, current_lane(), 'assigned',
               known.work_type, known.queue, 1, enqueue_assigned.payload
          from setting as settings, work_type as known, node_info as node
         where known.work_type = enqueue_assigned.work_type and known.weight = 1
           and (known.policy ? 'encrypted') is not true and is_short_object(enqueue_assigned.payload, settings.payload_limit)
           and node.incarnation = its_incarnation and node.node_id = its_node and is_reachable(node, node.lease)
           and serves_type(node, known.queue, known.work_type)
        returning job_assigned.job_id, job_assigned.assignment, job_assigned.lane, 1
             into job_id, assignment, lane, its_weight;
        if found then
            return;
        end if;
    end if;
    if "group" is null and tenant is null and not_after is null and (not_before is null or not_before <= now())
       and may_assign_at_once() then
        select settings.payload_limit, settings.aging, known.policy, known.priority, known.weight,
               coalesce(enqueue_assigned.queue, known.queue) as queue
          into facts
          from setting as settings, work_type as known
         where known.work_type = enqueue_assigned.work_type;
        perform from node_info as node
          where node.incarnation = its_incarnation and node.node_id = its_node and is_reachable(node, node.lease)
            and serves_type(node, facts.queue, enqueue_assigned.work_type)
            and not exists (select from control as held
                             where held.kind = 'queue' and held.key = facts.queue
                               and (held.is_paused or held.concurrency is not null or held.rate is not null
                                    or held.reserve > 0 or held.is_full))
            -- Whether it is heavy, as in next_job().
            and not (coalesce(enqueue_assigned.weight, facts.weight) > 1
                     and coalesce(enqueue_assigned.weight, facts.weight) * 10 * coalesce((node.report ->> 'workers')::integer, 1) >= node.capacity
                     and has_lighter_node(its_incarnation, node.load, facts.queue, enqueue_assigned.work_type,
                                          coalesce(enqueue_assigned.weight, facts.weight)));
        if found then
            job_id := nextval('job_id');
            assignment := next_assignment();
            lane := current_lane();
            its_weight := coalesce(weight, facts.weight);
            not_before := coalesce(not_before, now());
            priority := coalesce(priority, facts.priority);
            refused := check_job(work_type, payload, facts.payload_limit, priority, its_weight, facts.queue, null::text,
                                 null::text, not_before, not_after, options);
            if facts.policy ? 'encrypted' then
                refused := check_encrypted(facts.policy, work_type, payload);
            end if;
            insert into job_assigned (job_id, rank, not_before, not_after, enqueued_at, assigned_at, assignment,
                                      node_id, incarnation, weight, priority, lane, state, work_type, queue, handed,
                                      options, payload)
            values (job_id, compute_rank(not_before, not_after, priority, facts.aging), not_before, not_after, now(),
                    clock_timestamp(), assignment, its_node, its_incarnation, its_weight, priority, lane, 'assigned',
                    work_type, facts.queue, 1, without_keys_option(options), payload);
            return;
        end if;
    end if;
    job_id := enqueue(work_type, payload, queue, priority, weight, not_before, not_after, "group", options, tenant);
end $$;
comment on function txqueue.enqueue_assigned(integer, integer, text, jsonb, text, integer, integer, timestamptz,
    timestamptz, text, jsonb, text) is
    'Enqueue one job in the caller''s transaction, assigned to a node at once where that may be.';
