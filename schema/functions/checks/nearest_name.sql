-- The name that is most like a wrong one, as a question for the hint; empty if none is alike.
create or replace function txqueue.nearest_name(wrong text, known text[]) returns text
language plpgsql stable
set search_path = txqueue, pg_temp
as $$
declare
    given     constant text := left(wrong, 40);
    name      text;
    above     integer[];
    current   integer[];
    best      text := '';
    least     integer := 1 + greatest(1, length(given) / 3);
begin
    -- The number of letters to insert, delete or replace, row by row of the usual table.
    foreach name in array known loop
        above := array(select generate_series(0, length(name)));
        for i in 1 .. length(given) loop
            current := array[i];
            for j in 1 .. length(name) loop
                current := current || least(above[j + 1] + 1, current[j] + 1,
                                            above[j] + (substr(given, i, 1) <> substr(name, j, 1))::integer);
            end loop;
            above := current;
        end loop;
        if above[length(name) + 1] < least then
            least := above[length(name) + 1];
            best := name;
        end if;
    end loop;
    return case when best = '' then '' else format('did you mean %s? ', best) end;
end $$;
