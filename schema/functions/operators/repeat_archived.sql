-- Enqueues a copy of an archived job: see enqueue_again(). Its columns are an object with the archived
-- work_type, queue, priority, weight, group and tenant. Returns the number.
create or replace function txqueue.repeat_archived(
    its_job_id bigint, columns jsonb, its_payload jsonb, its_options jsonb, who text) returns bigint
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    this job := jsonb_populate_record(null::job, jsonb_build_object(
        'job_id', its_job_id, 'work_type', columns -> 'work_type', 'queue', columns -> 'queue', 'priority', columns -> 'priority',
        'weight', columns -> 'weight', 'group', columns -> 'group', 'tenant', columns -> 'tenant'));
begin
    this.payload := its_payload;
    this.options := its_options;
    return enqueue_again(this, who);
end $$;
