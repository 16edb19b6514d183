-- Makes the daily partitions of history from yesterday to a week ahead and drops those past the
-- time that history is kept. Returns the names of what it made and dropped. A partition is made
-- beside its parent and then attached, because that waits for no reader; one that cannot be
-- dropped at once is left for the next call.
create or replace function @schema@.ensure_history() returns text[]
language plpgsql volatile security definer
set search_path = @schema@, pg_temp
as $$
declare
    changed text[] := '{}';
    kept    interval := (select history_kept from setting);
    day     date;
    parent  text;
    leaf    text;
    oldest  text;
begin
    if not pg_try_advisory_xact_lock(hashtextextended('@schema@ history', 839)) then
        return changed;
    end if;
    foreach parent in array array['job_done', 'job_cancelled'] loop
        for day in select generate_series(current_date - 1, current_date + 7, '1 day')::date loop
            leaf := format('%s_%s', parent, to_char(day, 'YYYYMMDD'));
            continue when to_regclass(leaf) is not null;
            execute format('create table %I (like %I including defaults)', leaf, parent);
            execute format('alter table %I attach partition %I for values from (%L) to (%L)',
                           parent, leaf, day::timestamp at time zone 'UTC', (day + 1)::timestamp at time zone 'UTC');
            changed := changed || ('+' || leaf);
        end loop;
        oldest := format('%s_%s', parent, to_char(clock_timestamp() - kept - interval '1 day', 'YYYYMMDD'));
        for leaf in
            select child.relname from pg_inherits join pg_class as child on child.oid = inhrelid
             where inhparent = parent::regclass and child.relname < oldest order by 1
        loop
            if drop_leaf(leaf) then
                changed := changed || ('-' || leaf);
            end if;
        end loop;
    end loop;
    return changed;
end $$;
