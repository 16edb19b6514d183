-- The identity of this queue: of its server, database and table too, so that a restored copy of the database is
-- another queue. A client joins, and a command acts through, only a node of the same queue.
create or replace function txqueue.identity() returns uuid
language plpgsql stable security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    server bigint := 0;
begin
    begin
        select system_identifier into server from pg_control_system();
    exception when insufficient_privilege then
        -- A hosted server may hide it; the oids below still tell copies of one server apart.
        null;
    end;
    return (select md5(concat_ws(' ', server, database.oid, 'setting'::regclass::oid, setting.identity))::uuid
              from setting, pg_database as database where database.datname = current_database());
end $$;
