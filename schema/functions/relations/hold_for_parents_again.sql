-- Returns a job from reset_for_retry() in its state with its former parents: it waits for those that are
-- retried too, and is cancelled if one of them can never be done. A parent that history no longer has counts
-- as done.
create or replace function txqueue.hold_for_parents_again(this job) returns job
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    parents bigint[];
begin
    if coalesce(jsonb_typeof(this.options -> 'after'), 'null') <> 'array' then
        -- Of too many parents only the number is stored; if the job never ran, a parent was not done, or an
        -- operator cancelled the job.
        if this.options ? 'after' and not this.options ? 'parents' then
            this.state := 'cancelled';
        end if;
        return this;
    end if;
    parents := array(select value::bigint from jsonb_array_elements_text(this.options -> 'after') as value where value ~ '^[0-9]{1,18}$');
    return hold_for_parents(this, link_parents(this.job_id, parents, coalesce(this.options -> 'after_any_end' = 'true', false)));
end $$;
