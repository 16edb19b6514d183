-- The trigger of a day of history that is being archived: a change of a row invalidates the archived file.
create or replace function txqueue.note_history_change() returns trigger
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    update archived set attempt = attempt + 1, verified_at = null where leaf = tg_table_name;
    return null;
end $$;
