-- History: what programs call comes first, then its steps and what they use.

-- Starts archiving a day of history: from now on every change of it is recorded. Returns the number of the
-- attempt, which end_archive() takes; null if there is no such day. Ends earlier attempts.
create or replace function txqueue.begin_archive(its_leaf text) returns integer
language plpgsql volatile security definer
set lock_timeout = '2s'
as $$
declare
    due     record;
    attempt integer;
begin
    select * into due from history_due((clock_timestamp() at time zone 'UTC')::date) as day where day.leaf = its_leaf;
    if not found then
        return null;
    end if;
    if not exists (select from pg_trigger where tgrelid = its_leaf::regclass and tgname = 'archiving') then
        -- Waits for transactions that are changing a row.
        execute format('create trigger archiving after insert or update or delete on %I
                        for each row execute function note_history_change()', its_leaf);
    end if;
    insert into archived as former (leaf, state, day) values (its_leaf, due.state::job_state, due.day)
        on conflict (leaf) do update set attempt = former.attempt + 1, verified_at = null, dropped_at = null
        returning former.attempt into attempt;
    return attempt;
end $$;

-- The days of history that may be archived and dropped: those before a day, and not later than yesterday;
-- null for those past retention. Names are compared as texts, as the planner may evaluate this for other
-- tables.
create or replace function txqueue.history_due(before date default null)
returns table (leaf text, state text, day date)
language sql stable security definer
as $$
    select child.relname::text, right(parent.relname, -4), to_date(right(child.relname, 8), 'YYYYMMDD')
      from pg_inherits
      join pg_class as child on child.oid = inhrelid
      join pg_class as parent on parent.oid = inhparent
     where inhparent in ('job_done'::regclass, 'job_cancelled'::regclass) and child.relname ~ '_[0-9]{8}$'
       and right(child.relname, 8) < to_char(least(
               coalesce(before, (clock_timestamp() at time zone 'UTC' - (select history_kept from setting))::date - 1),
               (clock_timestamp() at time zone 'UTC')::date), 'YYYYMMDD')
     order by right(child.relname, 8), child.relname
$$;

-- The trigger of a day of history that is being archived: a change of a row invalidates the archived file.
create or replace function txqueue.note_history_change() returns trigger
language plpgsql volatile
as $$
begin
    update archived set attempt = attempt + 1, verified_at = null where leaf = tg_table_name;
    return null;
end $$;

-- Notes that a day of history has been archived and read back, with the numbers of its jobs and what stats() counts
-- of it. Returns false if it changed meanwhile, or another attempt has begun.
create or replace function txqueue.end_archive(
    its_leaf text, its_attempt integer, its_location text, its_jobs bigint, its_checksum text) returns boolean
language plpgsql volatile security definer
as $$
declare
    numbers record;
    counted jsonb;
begin
    if to_regclass(format('%I', its_leaf)) is null then
        return false;
    end if;
    -- Jobs of a day have mostly adjacent numbers. An aggregate of single numbers would hold all of them in memory.
    execute format(
        'select min(low) as lowest, max(high) as highest,
                case when count(*) <= 1000000 then coalesce(range_agg(int8range(low, high, ''[]'')), ''{}'') end as ids
           from (select min(job_id) as low, max(job_id) as high
                   from (select job_id, job_id - dense_rank() over (order by job_id) as island from %I) as each
                  group by island) as islands', its_leaf) into numbers;
    execute format(
        'select coalesce(jsonb_agg(to_jsonb(sums)), ''[]'')
           from (select date_trunc(''hour'', finished_at, ''UTC'') as hour, work_type, count(*) as jobs,
                        count(coalesce(started_at, assigned_at)) as began,
                        sum(extract(epoch from finished_at - coalesce(started_at, assigned_at)))::float8 as busy,
                        max(extract(epoch from finished_at - coalesce(started_at, assigned_at)))::float8 as longest,
                        sum(extract(epoch from coalesce(started_at, assigned_at) - greatest(enqueued_at, not_before)))::float8 as waited
                   from %I group by 1, 2) as sums', its_leaf) into counted;
    update archived
       set location = its_location, jobs = its_jobs, checksum = its_checksum, verified_at = clock_timestamp(),
           lowest = numbers.lowest, highest = numbers.highest, ids = numbers.ids, hours = counted
     where leaf = its_leaf and attempt = its_attempt and dropped_at is null;
    return found;
end $$;

-- Creates the daily partitions of history from yesterday to a week ahead and drops those past retention.
-- Returns the names of both. A partition is created separately and then attached, because that waits for no
-- reader. A partition that cannot be dropped at once, or that is not archived yet, is left for the next call.
create or replace function txqueue.ensure_history() returns text[]
language plpgsql volatile security definer
set "DateStyle" = 'ISO, MDY'
as $$
declare
    changed text[] := '{}';
    is_archived constant boolean := (select archive is not null from setting);
    today constant date := (clock_timestamp() at time zone 'UTC')::date;
    day     date;
    parent  text;
    leaf    text;
begin
    if not try_duty('history') then
        return changed;
    end if;
    foreach parent in array array['job_done', 'job_cancelled', 'failed_attempt'] loop
        for day in select generate_series(today - 1, today + 7, '1 day')::date loop
            leaf := format('%s_%s', parent, to_char(day, 'YYYYMMDD'));
            continue when to_regclass(leaf) is not null;
            execute format('create table %I (like %I including defaults)', leaf, parent);
            execute format('alter table %I replica identity full', leaf);
            execute format('alter table %I attach partition %I for values from (%L) to (%L)',
                           parent, leaf, day::timestamp at time zone 'UTC', (day + 1)::timestamp at time zone 'UTC');
            changed := changed || ('+' || leaf);
        end loop;
    end loop;
    perform note_history_days();
    for leaf in select due.leaf from history_due() as due loop
        -- A call whose run has not read its child yet keeps how that has ended.
        execute format(
            'update job_step as step set child_state = past.state::text, child_type = past.work_type, result = past.result, error = past.error'
            '  from %I as past where past.job_id = step.child and step.ended_at is null and step.child_state is null', leaf);
        if (case when is_archived then drop_archived(leaf) else forget_steps(leaf) and drop_leaf(leaf) end) then
            changed := changed || ('-' || leaf);
        end if;
    end loop;
    -- Failed attempts are not rows of job, and are not archived.
    for leaf in
        select child.relname from pg_inherits join pg_class as child on child.oid = inhrelid
         where inhparent = 'failed_attempt'::regclass
           and child.relname < format('failed_attempt_%s',
                   to_char(clock_timestamp() at time zone 'UTC' - (select history_kept from setting) - interval '1 day', 'YYYYMMDD'))
         order by 1
    loop
        if drop_leaf(leaf) then
            changed := changed || ('-' || leaf);
        end if;
    end loop;
    delete from version_failure as past
     where past.since < clock_timestamp() - (select history_kept from setting) and not exists (
           select from node_info where state in ('alive', 'draining') and report -> 'applications' ? past.application);
    -- They stay for a retry, until history has no such job any more.
    delete from job_signal as sent
     where sent.sent_at < clock_timestamp() - (select history_kept from setting) - interval '1 day'
       and not exists (select from job where job.job_id = sent.job_id);
    -- By then, all history that names an ended node is dropped.
    delete from node_info as former
     where state in ('dead', 'stopped')
       and ended_at < clock_timestamp() - greatest((select history_kept from setting), '1 day') - interval '1 day'
       and not exists (select from job_assigned as job where job.incarnation = former.incarnation);
    return changed;
end $$;

-- Records the range of job numbers of each past day that no transaction can still write into; the indexes
-- give them at once.
create or replace function txqueue.note_history_days() returns void
language plpgsql volatile
as $$
declare
    this    record;
    lowest  bigint;
    highest bigint;
begin
    for this in
        select due.leaf from history_due((clock_timestamp() at time zone 'UTC')::date - 1) as due
         where due.leaf not in (select known.leaf from history_day as known)
    loop
        execute format('select min(job_id), max(job_id) from %I', this.leaf) into lowest, highest;
        insert into history_day values (this.leaf, lowest, highest) on conflict do nothing;
    end loop;
    delete from history_day as known where to_regclass(format('%I', known.leaf)) is null;
end $$;

-- Drops a day of history that is archived and verified, unless a session uses history for longer than an
-- instant. A day that is not verified, or has changed since, stays. Returns whether it was dropped.
create or replace function txqueue.drop_archived(its_leaf text) returns boolean
language plpgsql volatile security definer
set lock_timeout = '50ms'
as $$
begin
    if not exists (select from archived where leaf = its_leaf and verified_at is not null and dropped_at is null)
       or to_regclass(format('%I', its_leaf)) is null or not forget_steps(its_leaf) then
        return false;
    end if;
    execute format('lock table %I in access exclusive mode', its_leaf);
    -- Check again, as no session can change the day from here on.
    update archived set dropped_at = clock_timestamp()
     where leaf = its_leaf and verified_at is not null and dropped_at is null;
    if found then
        execute format('drop table %I', its_leaf);
        return true;
    end if;
    return false;
exception when lock_not_available or undefined_table then
    return false;
end $$;

-- Deletes the steps of the jobs of a day of history that is to be dropped, for two seconds of a statement; returns whether
-- all are deleted. They are found by the numbers of the jobs, as a day has many jobs, few of which have steps.
create or replace function txqueue.forget_steps(leaf text) returns boolean
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    deleted integer := 1;
begin
    while deleted > 0 and clock_timestamp() < statement_timestamp() + interval '2 s' loop
        execute format('with few as (
                select distinct step.job_id
                  from (select min(job_id) as first, max(job_id) as last from %1$I) as day
                  join job_step as step on step.job_id between first and last
                 where exists (select from %1$I as past where past.job_id = step.job_id) limit 1000)
            delete from job_step using few where job_step.job_id = few.job_id', leaf);
        get diagnostics deleted = row_count;
    end loop;
    return deleted = 0;
end $$;

-- Drops a partition of history unless a session uses history for longer than an instant: the lock that it
-- needs on the whole table would make other sessions wait behind it.
create or replace function txqueue.drop_leaf(leaf text) returns boolean
language plpgsql volatile
set lock_timeout = '50ms'
as $$
begin
    execute format('drop table %I', leaf);
    return true;
exception when lock_not_available then
    return false;
end $$;

-- Finds a job by its number: among live and failed jobs, then in the days of history that can have it, the
-- latest first. A statement without a state would be planned for every day. An archived job is in a file that SQL
-- cannot read, so that there is no row of it: find_archived() tells where it is.
create or replace function txqueue.find_job(its_id bigint) returns setof txqueue.job
language plpgsql stable security definer
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
as $$
declare
    today constant date := (clock_timestamp() at time zone 'UTC')::date;
    day   record;
    latest constant text := to_char(today, '"job_done_"YYYYMMDD');
begin
    return query select * from job where job_id = its_id and state in ('waiting', 'ready', 'assigned', 'failed');
    if found then
        return;
    end if;
    -- Most jobs that are read have ended today: to list the days costs as much as all else.
    if to_regclass(latest) is not null then
        return query execute format('select * from %I where job_id = $1', latest) using its_id;
        if found then
            return;
        end if;
    end if;
    for day in
        select child.relname::text as leaf
          from pg_inherits
          join pg_class as child on child.oid = inhrelid
          left join history_day as known on known.leaf = child.relname::text
         where inhparent in ('job_done'::regclass, 'job_cancelled'::regclass)
           and case when known.leaf is not null then its_id between known.lowest and known.highest
                    else right(child.relname, 8) <= to_char(today + 1, 'YYYYMMDD') end
         order by right(child.relname, 8) desc
    loop
        return query execute format('select * from %I where job_id = $1', day.leaf) using its_id;
        if found then
            return;
        end if;
    end loop;
    -- A search of all days, slower but independent of the recorded numbers.
    return query select * from job where job_id = its_id;
end $$;
comment on function txqueue.find_job(bigint) is
    'A job by its number; no row for an archived one, whose state, day and archive find_archived() tells.';

-- Finds the failed and ended runs of a job. A session keeps the plan of a function; a statement is planned anew each time,
-- for every day of history.
create or replace function txqueue.find_attempts(its_id bigint) returns setof txqueue.failed_attempt
language plpgsql stable security definer
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
as $$
begin
    return query select * from failed_attempt where job_id = its_id;
end $$;

-- Finds the acts of operators on a job, by the index: another way reads the details of other acts, of which one may be damaged.
create or replace function txqueue.find_actions(its_id bigint) returns setof txqueue.action
language plpgsql stable security definer
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
as $$
begin
    return query select * from action
                  where action_id = any(array(select action_id from action where detail -> 'jobs' @> to_jsonb(its_id)));
end $$;

-- Finds an archived job by its number: its state, the day on which it ended, and the archive that has it. Of days that
-- an earlier release has archived, the numbers are not known.
create or replace function txqueue.find_archived(its_id bigint) returns table (state txqueue.job_state, day date, location text)
language sql stable security definer
as $$
    select past.state, past.day, past.location from archived as past
     where past.dropped_at is not null
       -- The numbers of a day may be many: they are read only if the job can be among them.
       and case when its_id between past.lowest and past.highest then past.ids @> its_id else false end
     order by past.day desc
$$;

-- How many done and cancelled jobs there are, by the server's own estimate: exact within a second
-- or so, and free. After a crash the server counts from nothing, until autovacuum has looked at the tables; then
-- what autovacuum has found before is closer.
create or replace view txqueue.history_size as
select kind.state, coalesce(sum(greatest(stats.n_live_tup, leaf_table.reltuples, 0)), 0)::bigint as jobs
  from (values ('done', 'txqueue.job_done'::regclass), ('cancelled', 'txqueue.job_cancelled'::regclass))
           as kind (state, parent)
  left join pg_inherits as leaf on leaf.inhparent = kind.parent
  left join pg_class as leaf_table on leaf_table.oid = leaf.inhrelid
  left join pg_stat_all_tables as stats on stats.relid = leaf.inhrelid
 group by kind.state;
comment on view txqueue.history_size is 'The estimated number of jobs in history.';

-- Takes or renews the duty to archive history for some seconds, or gives it back with 0. Returns false while another
-- process has it. It is a row with a time limit, not a lock, as a pooler gives each statement another session.
create or replace function txqueue.hold_archiving(its_holder uuid, seconds double precision) returns boolean
language plpgsql volatile security definer
set lock_timeout = '2s'
as $$
declare
    now_ constant timestamptz := clock_timestamp();
begin
    update duty set holder = its_holder, until = now_ + make_interval(secs => seconds)
     where name = 'archive'
       -- A moment that is too far ahead is of a clock that was set back.
       and (holder = its_holder or (until between now_ and now_ + interval '1 hour') is not true);
    return found;
end $$;

-- The trigger of tables of jobs: what belongs to jobs that a user has deleted goes with them. Stored functions say by a
-- setting that the next statement deletes rows in order to move them.
create or replace function txqueue.forget_deleted() returns trigger
language plpgsql volatile security definer
as $$
begin
    if current_setting('queue_rows.are_moved', true) = 'on' then
        perform set_config('queue_rows.are_moved', '', true);
        return null;
    end if;
    delete from job_step using gone where job_step.job_id = gone.job_id;
    delete from job_signal using gone where job_signal.job_id = gone.job_id;
    delete from failed_attempt using gone where failed_attempt.job_id = gone.job_id;
    delete from group_hold using gone where group_hold.job_id = gone.job_id;
    delete from unread_job using gone where unread_job.job_id = gone.job_id;
    return null;
end $$;

-- The place at which the last pages of a day's partition begin: (0,0) if it has no more than the given number.
create or replace function txqueue.last_pages(parent text, moment timestamptz, most integer) returns tid
language sql stable
as $$
    select format('(%s,0)', greatest(0, coalesce(pg_relation_size(to_regclass(
               format('txqueue.%I', parent || '_' || to_char(moment at time zone 'UTC', 'YYYYMMDD')))), 0)
               / current_setting('block_size')::integer - most))::tid
$$;
