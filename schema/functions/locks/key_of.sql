-- The key under whose lock a group's parked jobs, or the allowance of a limited queue or tenant, may be touched. Several
-- share one. Without settings of its own, so that it is inlined.
create or replace function txqueue.key_of(name text) returns smallint
language sql immutable
as $$
    select (hashtextextended(name, 839) & 16383)::smallint
$$;
