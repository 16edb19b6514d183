-- Lets the jobs of a paused queue, group or tenant start again. Returns whether that changed anything.
create or replace function txqueue.resume(its_kind text, its_key text, who text) returns boolean
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    this    control := lock_control(its_kind, its_key);
    changes boolean := this.is_paused;
begin
    this.is_paused := false;
    perform save_control(this);
    perform note_action(who, 'resume', its_kind || ' ' || its_key);
    return changes;
end $$;
