-- A job as it is when what it waited for is over: ready, unless its moment has not come or no node knows its type.
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
