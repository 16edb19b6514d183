-- The common part of errors of one kind: the class, the message without variable parts, and the functions at
-- the end of the traceback; without line numbers, which change with every release. Null for no error. A regular
-- expression over the whole traceback would cost more than all other work for a failure.
create or replace function txqueue.fingerprint(error text) returns text
language plpgsql immutable parallel safe
set search_path = txqueue, pg_temp
as $$
declare
    frames text;
    line   text;
begin
    if error is null then
        return null;
    end if;
    for place in 1 .. 3 loop
        line := split_part(split_part(error, 'File "', -place), E'\n', 1);
        if line like '%", line %, in %' then
            frames := concat_ws(' ', split_part(replace(split_part(line, '"', 1), E'\\', '/'), '/', -1) || ':'
                                     || split_part(split_part(split_part(line, '", line ', 2), ', in ', 2), ' ', 1), frames);
        end if;
    end loop;
    return left(md5(concat_ws(E'\n', error_kind(error), frames)), 12);
end $$;
