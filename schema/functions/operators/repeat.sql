-- Enqueues a copy of an ended job: see enqueue_again(). Returns the number.
create or replace function txqueue.repeat(its_job_id bigint, who text) returns bigint
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
set enable_seqscan = off
as $$
declare
    this job;
    past record;
    damage text;
begin
    select * into this from job where job_id = its_job_id
     order by state in ('done', 'failed', 'cancelled') limit 1;
    if not found then
        select * into past from find_archived(its_job_id) limit 1;
        if found then
            perform refuse(format('job %s is archived: it was %s on %s', its_job_id, past.state, past.day),
                           format('from a shell: txqueue repeat %s; in Python: queue.repeat()', its_job_id));
        end if;
        perform refuse(format('there is no job %s', its_job_id), 'check the number; old history is dropped');
    elsif this.state not in ('done', 'failed', 'cancelled') then
        perform refuse(format('job %s has not ended', its_job_id), 'wait for its end, or enqueue another');
    end if;
    damage := find_damage(this.options, this.payload);
    if damage is not null then
        perform refuse(format('job %s cannot be repeated: %s', its_job_id, damage),
                       'restore its row from a backup, or enqueue a job with the same payload');
    end if;
    return enqueue_again(this, who);
end $$;
