-- The server and its timeline: the same until a standby is promoted, or the database moves to another server.
-- Parts that the owner of the schema may not read are left out.
create or replace function txqueue.server_identity() returns text
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    its_system text;
begin
    if has_function_privilege('pg_control_system()', 'execute') then
        its_system := (pg_control_system()).system_identifier;
    end if;
    return concat_ws('/', its_system, left(pg_walfile_name(pg_current_wal_lsn()), 8));
end $$;
