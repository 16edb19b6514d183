-- Raises the error of a payload without a member that a key of its type is made of. It shows no value.
create or replace function txqueue.refuse_member(its_type text, key text, part jsonb, member jsonb) returns text
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    path constant text := (select string_agg(step ->> 0, '.' order by place)
                             from jsonb_array_elements(part -> 'path') with ordinality as steps (step, place));
    wanted constant text := case part ->> 'kind' when 'integer' then 'a whole number' when 'boolean' then 'true or false'
        when 'date' then 'a date, as in "2026-11-30"' when 'uuid' then 'a UUID with hyphens' else 'text' end;
begin
    return refuse(format('the %s key of %s is made of %s, which the payload %s', key, its_type, path,
                         case when member is null then 'does not have' else 'does not have as ' || wanted end),
                  format('give %s as %s; or pass {"keys": false} as options (--no-keys), with the keys that the job needs',
                         path, wanted));
end $$;
