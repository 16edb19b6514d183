-- Notifies sleeping masters of jobs; sends nothing while all masters are awake, because NOTIFY takes a lock
-- of the whole database at commit. Other notifications, with an empty text, may also be about schedules. Without settings of its own: they would cost more than what it does.
create or replace function txqueue.wake_masters() returns void
language sql volatile
as $$ select pg_notify('txqueue', 'jobs') where txqueue.has_sleeping_master() $$;
