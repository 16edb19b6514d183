-- The error with which a job cannot be moved because its row is damaged; null if it can, or if another session has
-- locked it. Values that can be read may resist deletion, as where they are stored says that they are deleted: only
-- a deletion shows that, which is undone.
create or replace function txqueue.find_loss(its_state job_state, its_lane smallint, its_id bigint) returns text
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    -- The error moves with the row; octet_length() would not read it.
    perform num_nulls(jsonb_typeof(payload), jsonb_typeof(options), jsonb_typeof(result), jsonb_typeof(progress), length(error))
       from job as this
      where state = its_state and lane = its_lane and job_id = its_id and has_large_values(this) for update skip locked;
    if found then
        perform set_config('queue_rows.are_moved', 'on', true);
        delete from job where state = its_state and lane = its_lane and job_id = its_id;
        raise sqlstate 'TXQ99';
    end if;
    return null;
exception
    when sqlstate 'TXQ99' then
        return null;
    when internal_error or system_error then
        return sqlerrm;
end $$;
