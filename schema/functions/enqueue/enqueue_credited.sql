-- Enqueues a job of weight 1 that needs no decision as assigned to the node that has granted open credit, and notifies
-- it; returns whether it could be. No row of the node is locked: rescue() finds jobs that are committed after their node
-- has died. Without settings of its own: only enqueue() calls it, for which they would cost more than what it does.
create or replace function txqueue.enqueue_credited(
    job_id bigint, work_type text, payload jsonb, queue text, priority integer, not_before timestamptz, aging interval,
    options jsonb) returns boolean
language plpgsql volatile
as $$
declare
    credit          constant bigint := pg_sequence_last_value('txqueue.open_credit');
    lane            constant smallint := txqueue.current_lane();
    its_node        integer;
    its_incarnation integer;
    assignment      bigint;
    taken           bigint;
    chunk           text;
begin
    if (txqueue.credit_left(credit) > 0 and pg_column_size(payload) < 2000 and txqueue.may_assign_at_once()
        and txqueue.try_turn(0)) is not true then
        return false;
    end if;
    select node.node_id, node.incarnation into its_node, its_incarnation from txqueue.node_info as node
     where node.incarnation = txqueue.credit_run(credit) and txqueue.is_reachable(node, node.lease / 2)
       and txqueue.serves_type(node, enqueue_credited.queue, enqueue_credited.work_type);
    if not found then
        return false;
    end if;
    chunk := txqueue.chunk_of(txqueue.chunk_entry(
        job_id, work_type, 0::smallint, 1, payload, coalesce(options::text, 'null')));
    -- No notification holds more.
    if octet_length(chunk) >= 7900 then
        return false;
    end if;
    taken := nextval('txqueue.open_credit');
    -- Other sessions may have taken the last of it, or a node may have granted other credit meanwhile.
    if (txqueue.credit_run(taken) = its_incarnation and txqueue.credit_left(taken) >= 0) is not true then
        return false;
    end if;
    assignment := txqueue.next_assignment();
    insert into txqueue.job_assigned (job_id, rank, not_before, enqueued_at, assigned_at, assignment, node_id, incarnation,
                                      weight, priority, lane, state, work_type, queue, handed, options, payload)
    values (job_id, txqueue.compute_rank(not_before, null, priority, aging), not_before, current_timestamp,
            clock_timestamp(), assignment, its_node, its_incarnation, 1, priority, lane, 'assigned', work_type, queue, 2,
            options, payload);
    perform txqueue.notify_run(its_incarnation, lane, assignment, chunk);
    return true;
end $$;
