-- The group and the tenant that the jobs of a schedule get, as far as they can be known: those that its job names, and
-- those that the type has published. For lists, which a schedule that is refused now must not make fail.
create or replace function txqueue.scheduled_keys(its_job jsonb, out "group" text, out tenant text)
language plpgsql stable security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    job  jsonb := readable_json(its_job);
    keys jsonb;
begin
    "group" := job ->> 'group';
    tenant := job ->> 'tenant';
    if "group" is not null and tenant is not null then
        return;
    end if;
    select declared_keys(known.policy, known.work_type, job -> 'payload', job -> 'options', job) into keys
      from work_type as known where known.work_type = job ->> 'work_type' and known.policy ? 'keys';
    "group" := coalesce("group", keys ->> 'group');
    tenant := coalesce(tenant, keys ->> 'tenant');
exception when sqlstate 'TXQ01' or data_exception or program_limit_exceeded then
    null;
end $$;
