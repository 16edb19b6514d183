-- Returns a job with the outcomes of its parents among its options, for its worker.
create or replace function txqueue.add_parent_outcomes(this job) returns job
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
begin
    if this.options ? 'steps' then
        -- Its parents are the children of its calls: what it waited for before its first run stays.
        return this;
    end if;
    this.options := coalesce(this.options, '{}') || jsonb_build_object('parents', (
        select jsonb_build_object(
                   'done', count(*) filter (where ended = 'done'), 'failed', count(*) filter (where ended = 'failed'),
                   'cancelled', count(*) filter (where ended = 'cancelled'))
          from job_parent where child = this.job_id));
    return this;
end $$;
