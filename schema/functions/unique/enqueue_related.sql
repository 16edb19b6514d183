-- Enqueues a job that has a unique key or waits for others. Returns its number, or that of the job that holds
-- its key.
create or replace function txqueue.enqueue_related(
    this job, key text, mode text, after bigint[], after_any_end boolean) returns bigint
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    if jsonb_typeof(coalesce(this.options, '{}')) <> 'object' then
        perform refuse('options is not a JSON object', 'pass an object, or null for none');
    end if;
    if key is not null and after is not null then
        perform refuse('a job with a unique key cannot wait for others',
                       'leave out unique, or enqueue it from the last of the others');
    end if;
    if key is null and mode is not null then
        perform refuse_keyless();
    end if;
    if after is null and after_any_end is not null then
        perform refuse('after_any_end without after', 'pass the jobs as after');
    end if;
    if after is not null then
        return enqueue_child(this, after, coalesce(after_any_end, false));
    end if;
    if mode = 'once' or this.options ?| array['as_of', 'once_for'] then
        return enqueue_remembered(this, key, coalesce(mode, 'keep'));
    end if;
    return enqueue_unique(this, key, coalesce(mode, 'keep'));
end $$;
