-- Returns a job in its state after its wait: ready, unless it is not due yet or no node has published its
-- type.
create or replace function txqueue.make_eligible(this job) returns job
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    this.waiting_for := case
        when not exists (select from work_type as known where known.work_type = this.work_type) then 'type'
        when this.not_before > clock_timestamp() then 'time' end;
    this.state := case when this.waiting_for is null then 'ready' else 'waiting' end;
    this.lane := current_lane();
    return this;
end $$;
