-- Whether the login of the session is a member of a role: true for no role, false for one that there is not.
create or replace function txqueue.is_member(role text) returns boolean
language sql stable
as $$ select coalesce(pg_has_role(session_user, to_regrole(quote_ident(role))::oid, 'member'), role is null) $$;
