-- Notifies sleeping masters of jobs; sends nothing while all masters are awake, nor while another transaction is about
-- to notify them of about as many jobs (see try_turn()): the masters that this one wakes look until all transactions
-- have ended that were open then. The text has the number of jobs and that of the transaction, by which
-- each master decides whether it is one of those that the notification wakes; the same text is sent once a
-- transaction. Other notifications, with an empty text, may also be about schedules. Without settings of its
-- own: they would cost more than what it does. A case, as the order of other conditions is not certain.
create or replace function txqueue.wake_masters(jobs integer default 1) returns void
language sql volatile
as $$
    select pg_notify('txqueue', 'jobs ' || jobs || ' ' || pg_current_xact_id())
     where case when txqueue.has_sleeping_master() and txqueue.may_notify()
                then txqueue.try_turn(least(length(jobs::text), 4)) else false end
$$;
