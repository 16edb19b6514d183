-- How long after a lease its jobs are not rescued: in this time a node that cannot reach the database ends
-- jobs that must not run twice. Without settings of its own, so that it is inlined.
create or replace function txqueue.lease_margin() returns interval
language sql immutable parallel safe
as $$ select interval '1 second' $$;
