-- Raises an error from inside an expression, only for the row that is not valid.
create or replace function txqueue.refuse(reason text, remedy text) returns text
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    raise exception using errcode = 'TXQ01', message = reason, hint = remedy;
end $$;
