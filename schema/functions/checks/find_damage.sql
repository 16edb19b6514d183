-- What of a job cannot be read because its row is damaged, and why; null if all of it can. A value that the caller
-- does not read may be left out. Not in SQL: the plan of a statement would read the values before they are checked.
create or replace function txqueue.find_damage(
    options jsonb default null, payload jsonb default null, result jsonb default null, progress jsonb default null,
    error text default null) returns text
language plpgsql stable security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    mark   constant text := 'txqueue cannot read this';
    faults text[];
    names  text[];
begin
    faults := array[readable_json(payload) ->> mark, readable_json(options) ->> mark, readable_json(result) ->> mark,
                    readable_json(progress) ->> mark, substring(readable_text(error) from '^' || mark || ': (.*)')];
    if array_remove(faults, null) = '{}' then
        return null;
    end if;
    names := array(select name from unnest(faults, array['payload', 'options', 'result', 'progress', 'error']) as each (fault, name)
                    where fault is not null);
    return format('its %s cannot be read: %s', array_to_string(names, ' and its '), (array_remove(faults, null))[1]);
end $$;
