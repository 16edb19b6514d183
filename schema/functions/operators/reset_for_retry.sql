-- Returns a job in its state for a retry by an operator, now or at a given moment. A job whose failure is
-- postponed stays of its kind.
create or replace function txqueue.reset_for_retry(this job, at timestamptz default null) returns job
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    settings setting;
begin
    if at is not null then
        this.not_before := at;
    -- That of a job with steps is the end of a wait, which a run goes on with.
    elsif this.state = 'waiting' or this.attempt > 0 or this.options ? 'steps' or this.not_before < clock_timestamp() then
        this.not_before := clock_timestamp();
    end if;
    select * into strict settings from setting;
    if at is not null or this.state <> 'waiting' then
        this.rank := compute_rank(this.not_before, this.not_after, this.priority, settings.aging);
    else
        -- A job that waits for a retry keeps its place; one that was due later does not go behind all until then.
        this.rank := least(this.rank, compute_rank(this.not_before, this.not_after, this.priority, settings.aging));
    end if;
    if this.state <> 'waiting' then
        this.attempt := 0;
        this.deaths := 0;
    end if;
    if this.options ? 'unread' then
        -- Each version tries again.
        this.options := nullif(this.options - 'unread', '{}');
        delete from unread_job where unread_job.job_id = this.job_id;
    end if;
    this.waiting_for := case
        when not exists (select from work_type as known where known.work_type = this.work_type) then 'type'
        when this.not_before > clock_timestamp() then 'time' end;
    this.state := case when this.waiting_for is null then 'ready' else 'waiting' end;
    this.finished_at := null;
    this.result := null;
    if at is null then
        this.fingerprint := null;
        this.failed_at := null;
    end if;
    return without_assignment(this);
end $$;
