-- serves: 7
-- Credit for jobs that any session may enqueue as assigned; whether there are limits.

-- The run of a node that has granted open credit, times 2^20, plus 2^19, minus the jobs that are left of it;
-- see credit_left(). A sequence, because each enqueue reads it, and takes of it without a lock or a dead
-- row.
create sequence txqueue.open_credit as bigint minvalue 0 start 0;
comment on sequence txqueue.open_credit is 'How many jobs may be enqueued as assigned to the node that has granted this, and which node that is.';

-- 1 once a limit or a pause was set; a sequence, because each enqueue reads it.
create sequence txqueue.has_limits as bigint minvalue 0 start 0;
comment on sequence txqueue.has_limits is '1 once a limit or a pause was set.';
select setval('txqueue.has_limits', 1) where exists (select from txqueue.control);

comment on column txqueue.job.handed is
    'Not null if a message, which may be lost, delivers it to its node; 2 for a notification of the database.';
