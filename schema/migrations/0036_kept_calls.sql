-- serves: 7
-- A call keeps how its child has ended when history drops that before a run has read it.

alter table txqueue.job_step add column child_state text;
comment on column txqueue.job_step.child_state is 'How its child has ended, if history has dropped that; result and error are those of the child then.';
