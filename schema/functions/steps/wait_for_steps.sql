-- Returns a job in its state at a wait: waiting, or ready if that has ended already.
create or replace function txqueue.wait_for_steps(this job, until timestamptz, children bigint[], is_ended boolean) returns job
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
begin
    this.state := 'ready';
    if is_ended or until <= clock_timestamp() then
        return this;
    end if;
    if children is not null then
        delete from job_parent where child = this.job_id;
        this := hold_for_parents(this, link_parents(this.job_id, children, true));
        if this.state = 'ready' then
            return this;
        end if;
    end if;
    this.state := 'waiting';
    this.waiting_for := case when until is not null then 'time' when children is not null then 'parents' else 'signal' end;
    this.not_before := coalesce(until, this.not_before);
    return this;
end $$;
