-- Returns an assigned job whose payload was not read in its state after that: it waits for a number of seconds; if
-- that is null, it is ready, or waits until a node may be able to read it.
create or replace function txqueue.return_unread(this job, delay double precision) returns job
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    this.waiting_for := case
        when delay is not null then 'time'
        when not has_reader(this.work_type, this.queue, this.options -> 'unread') then 'version' end;
    this.state := case when this.waiting_for is null then 'ready' else 'waiting' end;
    if delay is not null then
        this.not_before := clock_timestamp() + make_interval(secs => delay);
    end if;
    return without_assignment(this);
end $$;
