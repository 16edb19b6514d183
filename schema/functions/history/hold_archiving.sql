-- Takes or renews the duty to archive history for some seconds, or gives it back with 0. Returns false while another
-- process has it. It is a row with a time limit, not a lock, as a pooler gives each statement another session.
create or replace function txqueue.hold_archiving(its_holder uuid, seconds double precision) returns boolean
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
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
