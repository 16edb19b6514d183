-- Finds an archived job by its number: its state, the day on which it ended, and the archive that has it. Of days that
-- an earlier release has archived, the numbers are not known.
create or replace function txqueue.find_archived(its_id bigint) returns table (state txqueue.job_state, day date, location text)
language sql stable security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
    select past.state, past.day, past.location from archived as past
     where past.dropped_at is not null
       -- The numbers of a day may be many: they are read only if the job can be among them.
       and case when its_id between past.lowest and past.highest then past.ids @> its_id else false end
     order by past.day desc
$$;
