-- Whether a transaction may commit with a notification. PostgreSQL lets one at a time, and its lock_timeout bounds
-- how long a commit waits for its turn: with a short one, sessions of an application could not commit while others
-- do. Without a notification a job waits for the next poll. Without settings of its own, so that it is inlined.
create or replace function txqueue.may_notify() returns boolean
language sql stable
as $$ select current_setting('lock_timeout') = '0' or current_setting('lock_timeout')::interval >= interval '1 second' $$;
