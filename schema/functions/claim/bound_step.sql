-- What a step of a claim may take from one queue: the most jobs, the room for them, the heaviest (what can never start on
-- this node must not keep the others waiting), and whether they are counted. limits are null if the queue has none;
-- node_largest and node_total are those of attainable_room(). Only next_job() calls it.
create or replace function txqueue.bound_step(
    limits txqueue.open_queue, turn txqueue.claim_turn, room integer, part integer, ahead integer, largest integer, capacity integer,
    node_largest integer, node_total integer) returns txqueue.step_bounds
language plpgsql immutable
as $$
declare
    kept constant integer := case when turn.is_reserve then 0 else coalesce(limits.kept, 0) end;
    its  txqueue.step_bounds;
begin
    its.room := room - kept - case when kept > 0 then ahead else 0 end;
    its.jobs := least(part, its.room, limits.jobs - limits.taken);
    its.heaviest := greatest(least(largest, its.room), least(node_largest, node_total - kept, capacity));
    its.heaviest := case when its.heaviest < capacity then its.heaviest else 2147483647 end;
    its.is_counted := case when limits.is_counted or (limits.queue is not null and turn.tenant is not null) then 1 end;
    return its;
end $$;
