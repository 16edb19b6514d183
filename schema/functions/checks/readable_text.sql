-- A text as it is, or the error if it cannot be read because its row is damaged; see readable_json().
create or replace function txqueue.readable_text(value text) returns text
language plpgsql stable strict security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
begin
    -- To count characters reads all of it; octet_length() would not.
    return case when length(value) is not null then value end;
exception when data_exception or internal_error or program_limit_exceeded or system_error then
    return format('txqueue cannot read this: %s', sqlerrm);
end $$;
