-- The as_of moment in a job's options; null without one.
create or replace function txqueue.check_as_of(options jsonb, mode text) returns timestamptz
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    moment timestamptz;
begin
    if not coalesce(options, '{}') ? 'as_of' then
        return null;
    elsif mode not in ('replace', 'again') then
        perform refuse('as_of says which of two jobs is newer', 'pass replace or again as unique_mode, or leave as_of out');
    end if;
    begin
        moment := (options ->> 'as_of')::timestamptz;
    exception when others then
        moment := null;
    end;
    if moment is null or not isfinite(moment) then
        perform refuse('as_of is no moment', 'pass one in ISO 8601 with an offset, as text');
    end if;
    return moment;
end $$;
