-- The number of a new assignment: the next of the sequence, above 22 bits of the clock. A database restored from a
-- dump, or a standby that lagged, takes numbers of the sequence again; by these bits the new assignment still has
-- another token than the lost one, whose jobs may be running. Without settings of its own, so that it is inlined.
create or replace function txqueue.next_assignment() returns bigint
language sql volatile
as $$
    select (nextval('txqueue.assignment') << 22) + ((date_part('epoch', clock_timestamp()) * 1000000)::bigint & 4194303)
$$;
