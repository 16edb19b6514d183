-- Removes a schedule; its jobs stay. A schedule declared on a class that a node has is created again when that
-- node starts: pause it instead. Returns its last job.
create or replace function txqueue.remove_schedule(its_name text, who text) returns bigint
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    this schedule := lock_schedule(its_name);
begin
    if this.is_declared and exists (
        select from node_info where state in ('alive', 'draining') and this.work_type = any (work_types)) then
        perform refuse(format('the schedule %s is declared on its class, which a node has', its_name),
                       'pause it, or remove it there and restart the nodes');
    end if;
    delete from schedule where schedule_id = this.schedule_id;
    perform note_action(who, 'remove', 'schedule ' || its_name);
    return this.last_job;
end $$;
