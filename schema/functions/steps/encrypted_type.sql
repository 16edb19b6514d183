-- Returns the work type of a job if it is encrypted, as its payload tells, so that a client can encrypt a signal; null
-- otherwise. Refuses as signal() does, before the value is sent.
create or replace function txqueue.encrypted_type(job_id bigint, name text) returns text
language plpgsql stable security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_variable
declare
    its_type text;
    is_secret boolean;
begin
    select live.work_type, kind.policy ? 'encrypted' is not false and is_sealed(live.payload) into its_type, is_secret
      from job as live left join work_type as kind on kind.work_type = live.work_type
     where live.job_id = job_id and live.state in ('waiting', 'ready', 'assigned');
    if not found then
        perform refuse_signal(job_id, name);
    end if;
    return case when is_secret then its_type end;
end $$;
comment on function txqueue.encrypted_type(bigint, text) is 'The work type of a job whose signals must be encrypted, or null.';
