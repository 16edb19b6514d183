-- Returns a job as cancelled because one of its parents was not done.
create or replace function txqueue.cancel_orphan(this job, parent bigint, its_end text) returns job
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    this.state := 'cancelled';
    this.waiting_for := null;
    this.finished_at := clock_timestamp();
    this.error := format('cancelled: parent %s %s', parent, case its_end when 'failed' then 'failed' else 'was cancelled' end);
    return this;
end $$;
