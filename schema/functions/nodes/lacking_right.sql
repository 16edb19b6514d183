-- What a node lacks to work, by the roles that its heartbeats report, and what restores it if no grant does: null if
-- nothing. It cannot report that itself, as its heartbeats are refused, too. session_user connects, and current_role,
-- which SET ROLE may have changed, calls functions. What only new sessions lack stops none that is not silent.
create or replace function txqueue.lacking_right(report jsonb, is_silent boolean, out what text, out remedy text)
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
        return;
    elsif not exists (select from pg_roles where rolname = login) then
        what := format('its role %s does not exist', login);
        remedy := format('make it again, with its password: create role %I login in role txqueue_worker', login);
        return;
    elsif not exists (select from pg_roles where rolname = called) then
        what := format('its role %s does not exist', called);
        remedy := format('make it again: create role %I in role txqueue_worker; grant %1$I to %I', called, login);
        return;
    end if;
    if is_silent then
        select refused.what, refused.remedy into what, remedy from refused_session(login) as refused;
    end if;
    if what is null and not has_schema_privilege(called, 'txqueue', 'usage') then
        what := format('its role %s lacks usage on the schema %s', called, 'txqueue');
    elsif what is null then
        lost := array(
            select proname || '()' from pg_proc
             where pronamespace = 'txqueue'::regnamespace and not has_function_privilege(called, oid, 'execute')
               and proname in ('heartbeat', 'register_node', 'reserve_run', 'claim_ready', 'next_job', 'complete', 'settle', 'started', 'release')
             order by proname);
        what := case when lost <> '{}' then format('its role %s lacks execute on %s', called, array_to_string(lost, ', ')) end;
    end if;
end $$;
