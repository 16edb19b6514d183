-- An error's text with the same fingerprint that other errors of its kind have too: without the end that repeats its
-- message, and with equal digits in its first line after the class. So the fingerprint of many alike is computed once.
create or replace function txqueue.error_shape(error text) returns text
language plpgsql immutable parallel safe
set search_path = txqueue, pg_temp
as $$
declare
    message text := split_part(error, E'\n\nTraceback ', 1);
    frames  text := split_part(error, E'\n' || message, 1);
    line    text := left(split_part(message, E'\n', 1), 500);
    -- The class, or more: error_kind() decides.
    head    text := coalesce(substring(line from E'^[^\\s:]+(?=: |$)'), '');
begin
    if message like '%File "%' or (message <> error and frames || E'\n' || message <> error)
       or (message = error and message like E'%\n%') then
        return error;
    end if;
    -- Without a traceback it has no class.
    head := case when message <> error then head else '' end;
    -- No pattern of error_kind() tells these digits from each other.
    return head || regexp_replace(substr(line, length(head) + 1), '[2-9]', '1', 'g')
           || case when message <> error then substr(frames, length(message) + 1) else '' end;
end $$;
