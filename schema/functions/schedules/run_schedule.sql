-- Enqueues the job of a schedule now, regardless of its condition and even if it is paused; its next moment
-- stays the same, except for a cool-down, which starts after the job. Returns its number.
create or replace function txqueue.run_schedule(its_name text, who text) returns bigint
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
set enable_seqscan = off
as $$
declare
    this   schedule := lock_schedule(its_name);
    at     timestamptz := clock_timestamp();
    ran    bigint;
begin
    if this.kind = 'cooldown' and first_due(this.kind, this.last_job) is null then
        perform refuse(format('job %s of the schedule %s has not ended', this.last_job, its_name), 'wait for it, or cancel it');
    end if;
    ran := (enqueue_many(jsonb_build_array(this.job || jsonb_build_object(
        'options', coalesce(this.job -> 'options', '{}') || schedule_options(its_name, at, this.zone)))))[1];
    if this.kind = 'cooldown' then
        update job set followed = 1 where state in ('waiting', 'ready') and followed is null and job_id = ran;
    end if;
    update schedule set last_due = at, last_job = ran, recent = (ran || recent)[:20],
                        dues = (at || dues)[:20], next_due = case when kind <> 'cooldown' then next_due end,
                        put_off = case when kind <> 'cooldown' then put_off end
     where schedule_id = this.schedule_id;
    perform note_action(who, 'run', 'schedule ' || its_name, jsonb_build_object('jobs', jsonb_build_array(ran)));
    return ran;
end $$;
