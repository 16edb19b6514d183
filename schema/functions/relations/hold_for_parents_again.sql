-- A job that runs again as reset_for_retry() made it, with the parents it had: it waits for those that run again too, and is
-- cancelled if one of them cannot be done any more. A parent that history no longer has was done.
create or replace function txqueue.hold_for_parents_again(this job) returns job
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    parents bigint[];
begin
    if coalesce(jsonb_typeof(this.options -> 'after'), 'null') <> 'array' then
        -- Of too many only the number is known; one that never ran had a parent that was not done, or was cancelled by hand.
        if this.options ? 'after' and not this.options ? 'parents' then
            this.state := 'cancelled';
        end if;
        return this;
    end if;
    parents := array(select value::bigint from jsonb_array_elements_text(this.options -> 'after') as value where value ~ '^\d{1,18}$');
    return hold_for_parents(this, link_parents(this.job_id, parents, coalesce(this.options -> 'after_any_end' = 'true', false)));
end $$;
