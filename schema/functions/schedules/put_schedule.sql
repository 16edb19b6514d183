-- Creates a schedule, or changes the one of that name; its next moment is recomputed only if its times
-- change. Returns whether anything changed.
create or replace function txqueue.put_schedule(
    its_name text, terms jsonb, its_job jsonb, condition jsonb, who text, declared boolean default false) returns boolean
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
begin
    perform check_schedule(its_name, terms, its_job, condition);
    -- A node encrypts what its classes declare, and its start must not depend on what others have published.
    perform check_encrypted(policy, work_type, its_job -> 'payload') from work_type where work_type = its_job ->> 'work_type' and not declared;
    if not declared and exists (select from schedule where name = its_name and is_declared) then
        perform refuse(format('the schedule %s is declared on its class', its_name), 'change it there, or take another name');
    end if;
    return save_schedule(its_name, terms, its_job, condition, who, declared);
end $$;
