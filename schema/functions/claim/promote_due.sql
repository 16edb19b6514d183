-- Makes due jobs ready, up to a number. Returns the seconds until the next job is due, as next_due() does, and
-- the moment up to which all are promoted.
create or replace function txqueue.promote_due(
    since timestamptz, at_most integer, out due_in double precision, out seen_at timestamptz)
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    seen_at := clock_timestamp();
    perform promote(since, at_most);
    due_in := next_due(since);
    if due_in <= 0 then
        -- The caller searches from a minute before seen_at: it must find the oldest job left.
        seen_at := least(seen_at, clock_timestamp() + make_interval(secs => due_in + 59));
    end if;
end $$;
