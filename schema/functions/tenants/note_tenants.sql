-- Notes that there are jobs with a tenant, so that claims look for them from now on. Without settings
-- of its own: they would cost more than what it does.
create or replace function @schema@.note_tenants() returns void
language sql volatile
as $$ select setval('@schema@.has_tenants', 1) from @schema@.has_tenants where last_value = 0 $$;
