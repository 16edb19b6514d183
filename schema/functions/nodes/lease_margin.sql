-- How long after a lease its jobs are left alone: so long has a node that cannot reach the database to
-- end what must not run twice. Without settings of its own, so that it is inlined.
create or replace function txqueue.lease_margin() returns interval
language sql immutable parallel safe
as $$ select interval '1 second' $$;
