-- Refuses an invalid unique key or mode.
create or replace function txqueue.check_unique(key text, mode text) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    if length(key) not between 1 and 1000 then
        perform refuse('a unique key must have 1 to 1000 characters', 'pass a shorter key, or null for none');
    elsif mode not in ('keep', 'replace', 'again', 'reject', 'once') then
        perform refuse('there is no such unique_mode', 'use keep, replace, again, reject or once');
    end if;
end $$;
