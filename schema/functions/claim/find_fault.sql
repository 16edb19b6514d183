-- The error with which a job cannot be given to a worker; null if it can: its row is damaged, its text does
-- not fit into the encoding of the session, or it is too large. Errors of the server itself are not caught.
create or replace function txqueue.find_fault(its_state job_state, its_lane smallint, its_id bigint) returns text
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    perform octet_length(convert_to(chunk_entry(job_id, work_type, attempt, weight, payload, job_terms(options, "group", not_after)),
                                    pg_client_encoding()))
       from job where state = its_state and lane = its_lane and job_id = its_id;
    return find_loss(its_state, its_lane, its_id);
exception when data_exception or internal_error or program_limit_exceeded or system_error then
    return sqlerrm;
end $$;
