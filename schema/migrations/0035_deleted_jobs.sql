-- serves: 7
-- What belongs to a job goes with it, whatever deletes it: only statements that name these tables pay for that, and those
-- of txqueue name the lanes.

comment on table txqueue.job_step is 'The steps of jobs: what they returned, and what the jobs wait for.';
comment on column txqueue.job.steps is 'The steps of a job that older code has ended.';

create function txqueue.forget_deleted() returns trigger language plpgsql as $$ begin return null; end $$;
create trigger forget_deleted after delete on txqueue.job referencing old table as gone for each statement
    execute function txqueue.forget_deleted();
create trigger forget_deleted after delete on txqueue.job_failed referencing old table as gone for each statement
    execute function txqueue.forget_deleted();
create trigger forget_deleted after delete on txqueue.job_done referencing old table as gone for each statement
    execute function txqueue.forget_deleted();
create trigger forget_deleted after delete on txqueue.job_cancelled referencing old table as gone for each statement
    execute function txqueue.forget_deleted();
