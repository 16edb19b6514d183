-- Notes that there are jobs with a tenant, so that claims look for them from now on. Without settings
-- of its own: they would cost more than what it does.
create or replace function txqueue.note_tenants() returns void
language sql volatile
as $$ select setval('txqueue.has_tenants', 1) from txqueue.has_tenants where last_value = 0 $$;
