-- The facts of explain_facts() for some jobs, as many as are found in a second. A job whose row is damaged is left out, so
-- that the others are found; at the time limit of the statement, too, those that were found are returned.
create or replace function txqueue.explain_each(ids bigint[]) returns table (job_id bigint, facts jsonb)
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    -- Of so many jobs the facts are kept, to be used for others that wait for the same ones.
    most  constant integer := 64;
    known jsonb := '{}';
begin
    foreach job_id in array ids loop
        begin
            select its.known, its.facts into known, facts from related_facts(job_id, known) as its;
        exception when query_canceled then
            return;
        when data_exception or internal_error or program_limit_exceeded or system_error then
            facts := null;
        end;
        if (select count(*) from jsonb_object_keys(known)) > most then
            known := '{}';
        end if;
        if facts is not null then
            return next;
        end if;
        exit when clock_timestamp() > statement_timestamp() + interval '1 second';
    end loop;
end $$;
