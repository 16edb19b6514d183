-- serves: 7
-- A schedule whose next job is put off after an outage keeps the moment of that job.

alter table txqueue.schedule add column put_off timestamptz;
comment on column txqueue.schedule.put_off is 'The moment of the next job, if that was put off to next_due after an outage.';
