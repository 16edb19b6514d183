-- Heads in rank order, where some queues have those of the jobs that may use their reserve in place of all others. Only
-- next_job() calls it.
create or replace function txqueue.turn_to_reserve(
    heads txqueue.ready_head[], reserved text[], work_types text[], at_most integer) returns txqueue.ready_head[]
language plpgsql volatile
as $$
begin
    return txqueue.in_order(
        array(select each from unnest(heads) as each where each.queue <> all (reserved))
        || txqueue.find_heads(row(null, null, true)::txqueue.claim_turn, reserved, work_types, null, null, at_most));
end $$;
