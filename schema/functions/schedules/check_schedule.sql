-- Refuses an invalid schedule: its name, its times, its job, or a condition without a column that the caller
-- may read.
create or replace function txqueue.check_schedule(its_name text, terms jsonb, its_job jsonb, condition jsonb) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    caller   name := coalesce(nullif(current_setting('role'), 'none'), session_user);
    relation regclass;
    place    smallint;
begin
    if coalesce(length(its_name), 0) not between 1 and 200 then
        perform refuse('the name of a schedule must have 1 to 200 characters',
                       case when length(its_name) > 200 then 'pass a shorter name' else 'pass a name' end);
    end if;
    perform check_schedule_times(terms);
    perform check_job(its_job ->> 'work_type', its_job -> 'payload', (select payload_limit from setting),
                      coalesce((its_job ->> 'priority')::integer, 4), coalesce((its_job ->> 'weight')::integer, 1),
                      coalesce(its_job ->> 'queue', 'default'), its_job ->> 'group', its_job ->> 'tenant', now(), null, its_job -> 'options');
    perform declared_keys(known.policy, known.work_type, its_job -> 'payload', its_job -> 'options', its_job)
       from work_type as known where known.work_type = its_job ->> 'work_type' and known.policy ? 'keys';
    if condition is not null then
        relation := to_regclass(condition ->> 'table');
        select attnum into place from pg_attribute
         where attrelid = relation and attname = condition ->> 'column' and attnum > 0 and not attisdropped;
        if place is null or condition ->> 'value' is null then
            perform refuse(format('the condition names no column of a table: %s', condition),
                           'name the table with its schema, as in public.project, one of its columns, and a value');
        elsif not has_column_privilege(caller, relation, place, 'select') then
            perform refuse(format('%s may not read the column of the condition', caller), 'grant select on it');
        end if;
    end if;
end $$;
