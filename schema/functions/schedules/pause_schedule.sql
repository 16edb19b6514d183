-- Pauses a schedule until it is resumed; a job that was already enqueued still runs. Returns whether that
-- changed anything.
create or replace function txqueue.pause_schedule(its_name text, who text) returns boolean
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    this schedule := lock_schedule(its_name);
begin
    update schedule set is_active = false where schedule_id = this.schedule_id;
    perform note_action(who, 'pause', 'schedule ' || its_name);
    return this.is_active;
end $$;
