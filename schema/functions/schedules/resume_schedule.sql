-- Resumes a paused schedule; missed moments are not made up for. Returns whether that changed anything.
create or replace function txqueue.resume_schedule(its_name text, who text) returns boolean
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    this schedule := lock_schedule(its_name);
begin
    if not this.is_active then
        update schedule set is_active = true, error = null, next_due = first_due(this.kind, this.last_job)
         where schedule_id = this.schedule_id;
        perform pg_notify('txqueue', '');
    end if;
    perform note_action(who, 'resume', 'schedule ' || its_name);
    return not this.is_active;
end $$;
