-- Whether a tenant is neither paused nor limited: only then its jobs may take a reserve, in whose turn claims do not
-- count what tenants may take. Only claims call it.
create or replace function txqueue.is_unlimited_tenant(tenant text) returns boolean
language sql stable
as $$
    select not exists (select from txqueue.control
                        where kind = 'tenant' and key = is_unlimited_tenant.tenant
                          and (is_paused or concurrency is not null or rate is not null))
$$;
