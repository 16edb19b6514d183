-- Why a role gets no session in which a node could work, and the statement that ends that: null if nothing is known.
create or replace function txqueue.refused_session(login text, out what text, out remedy text)
language plpgsql stable
set search_path = txqueue, pg_temp
as $$
declare
    -- A node opens up to four sessions.
    least constant integer := 4;
    its   pg_roles;
    base  pg_database;
begin
    select * into its from pg_roles where rolname = login;
    select * into base from pg_database where datname = current_database();
    if not its.rolcanlogin then
        what := format('its role %s may not log in', login);
        remedy := format('alter role %I login', login);
    elsif not has_database_privilege(login, base.oid, 'connect') then
        what := format('its role %s may not connect to the database %s', login, base.datname);
        remedy := format('grant connect on database %I to %I', base.datname, login);
    elsif its.rolvaliduntil < clock_timestamp() then
        what := format('the password of its role %s has expired', login);
        remedy := format('alter role %I valid until ''infinity''', login);
    elsif not its.rolsuper and its.rolconnlimit >= 0 and (its.rolconnlimit < least
            or its.rolconnlimit <= (select count(*) from pg_stat_activity where usesysid = its.oid)) then
        what := format('its role %s has a connection limit of %s', login, its.rolconnlimit);
        remedy := format('alter role %I connection limit -1, or more than its nodes and applications use', login);
    elsif not its.rolsuper and base.datconnlimit >= 0 and (base.datconnlimit < least
            or base.datconnlimit <= (select count(*) from pg_stat_activity where datid = base.oid)) then
        what := format('the database %s has a connection limit of %s', base.datname, base.datconnlimit);
        remedy := format('alter database %I connection limit -1, or more than all nodes and applications use', base.datname);
    else
        -- The setting of the role in this database goes before that of the role, and that before the database's.
        select format('transactions of its role %s are read-only by its settings', login),
               format('alter %s reset default_transaction_read_only', case
                   when setrole = 0 and setdatabase = 0 then 'role all'
                   when setrole = 0 then format('database %I', base.datname)
                   when setdatabase = 0 then format('role %I', login)
                   else format('role %I in database %I', login, base.datname) end)
          into what, remedy
          from (select setrole, setdatabase, split_part(setting, '=', 2)::boolean as is_on
                  from pg_db_role_setting, unnest(setconfig) as setting
                 where setrole in (0, its.oid) and setdatabase in (0, base.oid)
                   and split_part(setting, '=', 1) = 'default_transaction_read_only'
                 order by setrole = 0, setdatabase = 0 limit 1) as first
         where is_on;
    end if;
end $$;
