-- serves: 7
-- Brings a database that the alpha has made or migrated, of version 29 or later, to what tables.sql makes.

alter table txqueue.setting alter column keys_required set default false;
-- Clients that do not know the keys of a type, as those of an older release of the application, are not refused.
update txqueue.setting set keys_required = false
 where (select max(number) from txqueue.migration) < 30;
comment on column txqueue.setting.keys_required is
    'Whether each job that SQL enqueues must have the keys of its type, and name those that only its class can compute.';

alter table txqueue.job_step add column if not exists child_type text, add column if not exists child_state text,
    add column if not exists annotation text;
comment on table txqueue.job_step is 'The steps of jobs: what they returned, and what the jobs wait for.';
comment on column txqueue.job_step.child_type is 'The work type of an ended child, by which its result is read.';
comment on column txqueue.job_step.child_state is 'How its child has ended, if history has dropped that; result and error are those of the child then.';
comment on column txqueue.job_step.annotation is 'The type of the value that a wait takes, if its code says so.';
comment on column txqueue.job.followed is 'Not null if its end affects other jobs or a schedule (see propagate_ends()); 1 if other jobs may read its result.';
comment on column txqueue.job.steps is 'The steps of a job that older code has ended.';

alter table txqueue.work_type add column if not exists schema jsonb;

alter table txqueue.job_signal add column if not exists taken_by text collate "C";
comment on column txqueue.job_signal.taken_by is 'The step that has taken it.';

alter table txqueue.schedule add column if not exists put_off timestamptz;
comment on column txqueue.schedule.put_off is 'The moment of the next job, if that was put off to next_due after an outage.';

alter table txqueue.action add column if not exists former jsonb;
comment on column txqueue.action.former is 'What its undo restores: a control, or values of jobs; null for none, and after an hour.';
create index if not exists action_at_idx on txqueue.action (at) where former is not null;

alter table txqueue.failed_attempt add column if not exists work_type text collate "C",
    add column if not exists application text collate "C", add column if not exists fingerprint text collate "C";
comment on column txqueue.failed_attempt.restarted_by is
    'The operator that ended the run so that the job starts again, or that gave the attempt back; null for one that failed.';
comment on column txqueue.failed_attempt.application is 'The version of the application that ran it, if a worker has said so.';
comment on column txqueue.failed_attempt.fingerprint is 'The kind of the failure.';

create table if not exists txqueue.version_failure (
    application  text collate "C" not null,
    work_type    text collate "C" not null,
    fingerprint  text collate "C" not null,
    since        timestamptz not null default clock_timestamp(),
    held_at      timestamptz,
    released_at  timestamptz,
    failed       bigint,
    runs         bigint,
    error        text,
    primary key (application, work_type, fingerprint)
);
create index if not exists version_failure_work_type_idx on txqueue.version_failure (work_type) where held_at is not null;
create index if not exists version_failure_work_type_fingerprint_idx on txqueue.version_failure (work_type, fingerprint);
comment on table txqueue.version_failure is
    'Which kinds of failure each version of the application has had, by work type; with an empty kind, that the deploy guard has seen it.';
comment on column txqueue.version_failure.held_at is 'When the deploy guard held the type on this version because of this kind.';
comment on column txqueue.version_failure.released_at is 'When an operator released it, or an older version failed so, too.';
comment on column txqueue.version_failure.failed is 'How many runs had failed so, when it was held.';
comment on column txqueue.version_failure.runs is 'Of how many.';
comment on column txqueue.version_failure.error is 'The first line of their last error; of redacted work only the class.';

comment on sequence txqueue.incarnation is 'The runs of nodes in functions of the alpha, until these are replaced.';
comment on column txqueue.control.backlog is 'How many jobs of this queue may wait or be ready before more are refused.';

alter table txqueue.control add column if not exists held_until timestamptz, add column if not exists held_by bigint;
comment on column txqueue.control.held_until is 'No job of it starts before, as a handler raised Throttled.';
comment on column txqueue.control.held_by is 'The job whose handler did.';
create sequence if not exists txqueue.has_rates minvalue 0;
comment on sequence txqueue.has_rates is '1 once a type with a rate was published.';
create table if not exists txqueue.spent_rate (
    number      bigint not null generated always as identity,
    work_type   text collate "C" not null,
    "group"     text collate "C" not null,
    spent       double precision not null,
    counted_at  timestamptz not null,
    paid_at     timestamptz not null
);
comment on table txqueue.spent_rate is
    'What jobs have spent of the rate that their type declares for each of its groups. Each is a new row, of which the last counts.';
comment on column txqueue.spent_rate.spent is 'The cost that was not paid for at counted_at.';
comment on column txqueue.spent_rate.paid_at is 'When all of it is paid for, and the row says nothing.';
create index if not exists spent_rate_group_work_type_number_idx on txqueue.spent_rate ("group", work_type, number);
create index if not exists spent_rate_paid_at_idx on txqueue.spent_rate (paid_at);

do $$
declare
    its_table regclass;
    former    text;
begin
    -- PostgreSQL 18 names also what is not null; these tables had other names.
    for its_table, former in
        select conrelid, conname from pg_constraint
         where conrelid in ('txqueue.late_end'::regclass, 'txqueue.late_group'::regclass) and conname ~ '^un'
    loop
        execute format('alter table %s rename constraint %I to %I', its_table, former,
                       regexp_replace(former, '^(unfollowed|unfreed)', (select relname from pg_class where oid = its_table)));
    end loop;
    if not exists (select from pg_attribute where attrelid = 'txqueue.group_slot'::regclass and attname = 'tokens') then
        alter type txqueue.group_slot add attribute rated_type text, add attribute tokens double precision;
    end if;
    -- As set_limit() does with the first limit of a backlog.
    if exists (select from txqueue.control where backlog is not null) then
        create index if not exists job_waiting_queue_idx on txqueue.job_waiting (queue);
    end if;
    if to_regproc('txqueue.forget_deleted') is not null then
        return;
    end if;
    create function txqueue.forget_deleted() returns trigger language plpgsql as 'begin return null; end';
    revoke execute on function txqueue.forget_deleted() from public;
    foreach its_table in array '{txqueue.job,txqueue.job_failed,txqueue.job_done,txqueue.job_cancelled}'::regclass[] loop
        execute format('create trigger forget_deleted after delete on %s referencing old table as gone for each statement'
                       ' execute function txqueue.forget_deleted()', its_table);
    end loop;
end $$;
