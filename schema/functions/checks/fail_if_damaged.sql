-- Stores a job whose row was just deleted as failed if some of its values are lost, as nothing can move them: one
-- damaged job must not stop the jobs before it, its group, or the heartbeats that rescue it. One that has ended
-- keeps its end. What follows from its failure is left for propagate_late_ends() and free_late_groups(), as the
-- caller moves other jobs. Returns whether it was damaged. Callers ask has_large_values() first, which is cheaper.
create or replace function txqueue.fail_if_damaged(this job) returns boolean
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    fault text;
begin
    begin
        -- Each value is read whole. Nothing is written in this block, which would number a subtransaction.
        if num_nulls(jsonb_typeof(this.payload), jsonb_typeof(this.options), jsonb_typeof(this.result),
                     jsonb_typeof(this.progress), length(this.error)) >= 0 then
            return false;
        end if;
    exception when internal_error or system_error then
        fault := sqlerrm;
    end;
    if this.state not in ('done', 'failed', 'cancelled') then
        this.state := 'failed';
        this.failed_at := clock_timestamp();
    end if;
    this.waiting_for := null;
    this.finished_at := coalesce(this.finished_at, clock_timestamp());
    this.error := format('its row is damaged: %s', fault);
    this := without_values(this, fault);
    this.fingerprint := case when this.state = 'failed' then fingerprint(this.error) end;
    insert into job values (this.*);
    if this.followed is not null then
        perform note_late_ends(array[this.job_id]);
    end if;
    if this."group" is not null then
        delete from group_hold where group_hold.job_id = this.job_id;
        insert into late_group values (this."group");
    end if;
    return true;
end $$;
