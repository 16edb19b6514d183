-- Notifies sleeping masters of jobs; sends nothing while all masters are awake, because NOTIFY takes a lock
-- of the whole server at commit. The text has the number of jobs and that of the transaction, by which
-- each master decides whether it is one of those that the notification wakes; the same text is sent once a
-- transaction. Other notifications, with an empty text, may also be about schedules. Without settings of its
-- own: they would cost more than what it does.
create or replace function txqueue.wake_masters(jobs integer default 1) returns void
language sql volatile
as $$ select pg_notify('txqueue', 'jobs ' || jobs || ' ' || pg_current_xact_id()) where txqueue.has_sleeping_master() and txqueue.may_notify() $$;
