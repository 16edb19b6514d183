-- What a node lacks to work, by the roles that its heartbeats report: null if nothing. It cannot report that itself, as its
-- heartbeats are refused, too. session_user connects, and current_role, which SET ROLE may have changed, calls functions.
create or replace function txqueue.lacking_right(report jsonb) returns text
language plpgsql stable security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    login  constant text := report ->> 'login';
    called constant text := report ->> 'role';
    lost   text[];
begin
    if login is null or called is null then
        -- A node of an older version.
        return null;
    elsif not exists (select from pg_roles where rolname = login) or not exists (select from pg_roles where rolname = called) then
        return format('its role %s does not exist', case when exists (select from pg_roles where rolname = login) then called else login end);
    elsif not (select rolcanlogin from pg_roles where rolname = login) then
        return format('its role %s may not log in', login);
    elsif not has_database_privilege(login, current_database(), 'connect') then
        return format('its role %s may not connect to the database %s', login, current_database());
    elsif not has_schema_privilege(called, 'txqueue', 'usage') then
        return format('its role %s lacks usage on the schema %s', called, 'txqueue');
    end if;
    lost := array(
        select proname || '()' from pg_proc
         where pronamespace = 'txqueue'::regnamespace and not has_function_privilege(called, oid, 'execute')
           and proname in ('heartbeat', 'register_node', 'reserve_run', 'claim_ready', 'next_job', 'complete', 'settle', 'started', 'release')
         order by proname);
    return case when lost <> '{}' then format('its role %s lacks execute on %s', called, array_to_string(lost, ', ')) end;
end $$;
