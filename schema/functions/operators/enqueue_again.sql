-- Enqueues a copy of an ended job: the same payload and policy, due now, waiting for no other job. If another
-- job holds its unique key, nothing is enqueued. A copy has the outcomes of the job's parents. Returns the number
-- of the new job, or of that other one.
create or replace function txqueue.enqueue_again(this job, who text) returns bigint
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
declare
    outcomes constant jsonb := case jsonb_typeof(this.options) when 'object' then this.options -> 'parents' end;
    number bigint;
begin
    -- Older versions stored what no option is.
    this.options := case jsonb_typeof(this.options) when 'object' then (
        select jsonb_object_agg(key, value) from jsonb_each(this.options) where key = any (known_options() || 'unique'::text)) end;
    number := enqueue(
        this.work_type, this.payload, this.queue, this.priority, this.weight, null, null, this."group",
        coalesce(this.options, '{}') - array['unique', 'as_of', 'once_for'] || '{"keys": false}', this.tenant, this.options ->> 'unique');
    -- Clients cannot give this option. A job with parents has no unique key, so the number is that of the copy.
    if outcomes is not null then
        update job set options = coalesce(options, '{}') || jsonb_build_object('parents', outcomes)
         where job_id = number and state in ('waiting', 'ready', 'assigned');
    end if;
    perform note_action(who, 'repeat', format_job_ids(array[this.job_id]), jsonb_build_object('jobs', array[this.job_id, number]));
    return number;
end $$;
