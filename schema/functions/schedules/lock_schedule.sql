-- Returns the schedule of a name, locked until the end of the transaction.
create or replace function txqueue.lock_schedule(its_name text) returns schedule
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    this schedule;
begin
    select * into this from schedule where name = its_name for update;
    if this.schedule_id is null then
        perform refuse(format('there is no schedule %s', its_name), 'see: txqueue schedules');
    end if;
    return this;
end $$;
