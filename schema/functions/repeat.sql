-- Enqueues a job that has ended once more, as a new one: the same payload and policy, due now, behind nobody's end. One with
-- a unique key that another holds by now is not needed: that one is returned. Returns the number.
create or replace function @schema@.repeat(its_job_id bigint, who text) returns bigint
language plpgsql volatile security definer
set search_path = @schema@, pg_temp
set enable_seqscan = off
as $$
declare
    this   job;
    number bigint;
begin
    select * into this from job where job_id = its_job_id
     order by state in ('done', 'failed', 'cancelled') limit 1;
    if not found then
        perform refuse(format('there is no job %s', its_job_id), 'check the number; old history is dropped');
    elsif this.state not in ('done', 'failed', 'cancelled') then
        perform refuse(format('job %s has not ended', its_job_id), 'wait for its end, or enqueue another');
    end if;
    if jsonb_typeof(this.options) <> 'object' then
        this.options := null;
    end if;
    number := enqueue(
        this.work_type, this.payload, this.queue, this.priority, this.weight, null, null, this."group",
        nullif(this.options - array['unique', 'parents', 'after', 'after_any_end'], '{}'), this.tenant, this.options ->> 'unique');
    perform note_action(who, 'repeat', subject_of(array[its_job_id]), jsonb_build_object('jobs', array[its_job_id, number]));
    return number;
end $$;
