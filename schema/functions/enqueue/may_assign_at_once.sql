-- Whether jobs of this transaction may be assigned when they are enqueued. A node starts such a job as soon as it
-- is visible. So its commit must be on disk by then: after a crash, numbers that are not would be given again, to
-- jobs that never ran. The commit notifies the node. And the transaction must see limits and pauses as they are now, not as they were when it
-- began. Without settings of its own, so that it is inlined.
create or replace function txqueue.may_assign_at_once() returns boolean
language sql stable
as $$ select current_setting('synchronous_commit') <> 'off' and current_setting('transaction_isolation') like 'read %' and txqueue.may_notify() $$;
