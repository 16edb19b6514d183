-- Notifies waiting clients of ended jobs: their numbers joined by commas; an empty text if there are too
-- many.
create or replace function txqueue.notify_ended_jobs(ids text) returns void
language sql volatile
as $$ select pg_notify('txqueue_ended', case when length(ids) <= 4000 then ids else '' end) where txqueue.may_notify() $$;
