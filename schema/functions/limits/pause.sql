-- Pauses a queue, a group or a tenant until it is resumed; running jobs continue. Takes effect at the next
-- claim: compute_allowances() allows a paused queue or tenant no jobs, so open_queues() and tenant_turns() skip
-- it, and group_slots() gives a paused group no slot. Returns whether that changed anything.
--
-- enqueue_assigned() makes no direct dispatch to a paused queue. take_first() takes nothing while any control
-- exists, so claim_ready() leaves all jobs to next_job().
create or replace function txqueue.pause(its_kind text, its_key text, who text) returns boolean
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    this    control := lock_control(its_kind, its_key);
    changes boolean := not this.is_paused;
begin
    this.is_paused := true;
    perform save_control(this);
    perform note_action(who, 'pause', its_kind || ' ' || its_key);
    return changes;
end $$;
