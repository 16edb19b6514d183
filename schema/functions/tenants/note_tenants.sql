-- Records that jobs with a tenant exist, so that claims search for them from now on. Without settings of its
-- own, which would cost more than the function.
create or replace function txqueue.note_tenants() returns void
language sql volatile
as $$ select setval('txqueue.has_tenants', 1) from txqueue.has_tenants where last_value = 0 $$;
