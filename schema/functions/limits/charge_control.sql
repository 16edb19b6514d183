-- Charges jobs to the token bucket of a limited queue or tenant, if it has one; the caller holds the key's
-- lock.
create or replace function txqueue.charge_control(its_kind text, its_key text, jobs integer) returns void
language sql volatile
set search_path = txqueue, pg_temp
as $$
    select charge_bucket(control, jobs) from control where kind = its_kind and key = its_key and rate is not null
$$;
