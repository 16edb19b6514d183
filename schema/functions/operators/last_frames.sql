-- The last three frames of a traceback, as file:function. A regular expression over the whole of it would take twenty
-- times as long: it is for those lines only that look like a frame.
create or replace function txqueue.last_frames(error text) returns text
language plpgsql immutable parallel safe
set search_path = txqueue, pg_temp
as $$
declare
    lines  text[] := string_to_array(error, E'\n');
    frames text[] := '{}';
    part   text;
    found  text[];
begin
    for place in reverse cardinality(lines) .. 1 loop
        part := lines[place];
        continue when part not like '%File "%", line %, in %';
        found := regexp_match(part, 'File "(?:[^"]*[/\\])?([^"/\\]*)", line \d+, in (\S+)');
        if found is not null then
            frames := (found[1] || ':' || found[2]) || frames;
            exit when cardinality(frames) = 3;
        end if;
    end loop;
    return array_to_string(nullif(frames, '{}'), ' ');
end $$;
