-- For how long a key is remembered in mode once; null if the options have no limit.
create or replace function txqueue.check_once_for(options jsonb, mode text) returns interval
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    if not coalesce(options, '{}') ? 'once_for' then
        return null;
    elsif mode <> 'once' then
        perform refuse('once_for is for unique_mode once', 'pass that, or leave once_for out');
    elsif jsonb_typeof(options -> 'once_for') <> 'number' or (options ->> 'once_for')::numeric not between 0 and 315360000 then
        perform refuse('once_for is not within 0 and ten years of seconds', 'give seconds as a number, or leave it out to remember without end');
    end if;
    return make_interval(secs => (options ->> 'once_for')::double precision);
end $$;
