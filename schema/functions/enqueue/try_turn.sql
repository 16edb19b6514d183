-- Takes the turn to commit with a notification, until the transaction ends; returns whether it has it. PostgreSQL lets
-- one transaction at a time commit so, from before its commit is on disk until after that. Of many at a time one takes
-- the turn; the others send no notification, and commit together. A transaction that stays open keeps the turn for its
-- slot of time only: several times as long as a commit takes, which masters measure and keep, in ms, above the lowest
-- bit of the sequence asleep. kind: 0 for open credit, 1 to 4 for wake-ups by the digits of their number of jobs.
-- Without settings of its own, so that it is inlined.
create or replace function txqueue.try_turn(kind integer) returns boolean
language sql volatile
as $$
    select pg_try_advisory_xact_lock(
        'txqueue.asleep'::regclass::oid::integer,
        ((date_part('epoch', clock_timestamp()) * 1000)::bigint / greatest(pg_sequence_last_value('txqueue.asleep') >> 1, 10)
         % 2000000)::integer * 8 + kind)
$$;
