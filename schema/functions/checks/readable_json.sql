-- A value as it is, or an object with the error if it cannot be read because its row is damaged: for lists of rows,
-- which one of them would make fail. Errors of the server itself are not caught.
create or replace function txqueue.readable_json(value jsonb) returns jsonb
language plpgsql stable strict security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
begin
    -- The conversion reads all of it. An expression is faster than a statement.
    return case when value::text is not null then value end;
exception when data_exception or internal_error or program_limit_exceeded or system_error then
    return jsonb_build_object('txqueue cannot read this', sqlerrm);
end $$;
