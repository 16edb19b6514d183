-- The facts of explain_facts() for some jobs. A job whose row is damaged is left out, so that the others are found.
create or replace function txqueue.explain_each(ids bigint[]) returns table (job_id bigint, facts jsonb)
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
begin
    foreach job_id in array ids loop
        begin
            facts := explain_facts(job_id);
        exception when data_exception or internal_error or program_limit_exceeded then
            facts := null;
        end;
        continue when facts is null;
        return next;
    end loop;
end $$;
