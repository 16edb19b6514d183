-- Creates the daily partitions of history from yesterday to a week ahead and drops those past retention.
-- Returns the names of both. A partition is created separately and then attached, because that waits for no
-- reader. A partition that cannot be dropped at once, or that is not archived yet, is left for the next call.
create or replace function txqueue.ensure_history() returns text[]
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
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
    perform drop_remnants();
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
