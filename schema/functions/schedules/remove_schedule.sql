-- Removes a schedule; its jobs stay. A schedule declared on a class is created again when a node starts:
-- pause it instead. Returns its last job.
create or replace function txqueue.remove_schedule(its_name text, who text) returns bigint
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    this schedule := lock_schedule(its_name);
begin
    if this.is_declared then
        perform refuse(format('the schedule %s is declared on its class', its_name), 'pause it, or remove it there');
    end if;
    delete from schedule where schedule_id = this.schedule_id;
    perform note_action(who, 'remove', 'schedule ' || its_name);
    return this.last_job;
end $$;
