-- The options that a schedule adds to its jobs: its name, the moment, and the time zone of a cron schedule.
create or replace function txqueue.schedule_options(its_name text, moment timestamptz, its_zone text) returns jsonb
language sql stable
set search_path = txqueue, pg_temp
as $$
    select jsonb_strip_nulls(jsonb_build_object('schedule', its_name, 'due', moment, 'zone', its_zone))
$$;
