-- Refuses invalid times of a schedule.
create or replace function txqueue.check_schedule_times(terms jsonb) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    kind text := terms ->> 'kind';
begin
    if kind is null or kind not in ('cron', 'every', 'cooldown') then
        perform refuse('a schedule is neither cron nor every nor cooldown', 'pass one of these as its kind');
    elsif kind = 'cron' and (terms ->> 'expression' is null or terms ->> 'zone' is null) then
        perform refuse('a cron schedule has no expression or no zone', 'pass both, as in 0 3 * * * and Europe/Berlin');
    elsif kind = 'cron' and terms ->> 'zone' ~ '^($|localtime$|posixrules$|posix/|right/|[^A-Za-z])' then
        perform refuse(format('there is no time zone %L', terms ->> 'zone'), 'use a name such as Europe/Berlin or UTC');
    elsif kind <> 'cron' and coalesce((terms ->> 'seconds')::double precision, 0) not between 1 and 366 * 86400 then
        perform refuse('the period of a schedule is not within a second and a year', 'pass its seconds');
    elsif coalesce((terms ->> 'jitter')::double precision, 0) not between 0 and coalesce((terms ->> 'seconds')::double precision, 3600) then
        perform refuse('the jitter of a schedule is not within its period', 'pass seconds; for cron at most 3600');
    elsif coalesce(terms ->> 'catch_up', 'skip') not in ('skip', 'one', 'all') then
        perform refuse('catch_up is not known', 'pass skip, one or all');
    elsif coalesce(terms ->> 'overlap', 'allow') not in ('allow', 'skip') or kind = 'cooldown' and terms ? 'overlap' then
        perform refuse('the overlap of a schedule is not known', 'pass allow or skip; a cool-down has none');
    elsif coalesce(terms ->> 'since', 'end') not in ('start', 'end') or kind <> 'cooldown' and terms ? 'since' then
        perform refuse('a cool-down counts neither since the start nor since the end', 'pass start or end; other schedules have none');
    elsif coalesce((terms ->> 'times')::numeric, 1) not between 1 and 1000000000 then
        perform refuse('a schedule''s times are not within 1 and 1000000000', 'leave them out for a schedule without an end');
    end if;
end $$;
