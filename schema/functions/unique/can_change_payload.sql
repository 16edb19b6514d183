-- Whether a long transaction may change a job's payload without making other sessions wait for its row.
-- Claims skip locked rows, but the completion of a job of a group waits for the group's next job.
create or replace function txqueue.can_change_payload(this job) returns boolean
language sql immutable
set search_path = txqueue, pg_temp
as $$
    select (this.options ? 'steps') is not true and case this.state
        when 'ready' then this."group" is null
        when 'waiting' then this.waiting_for in ('time', 'type', 'unique', 'version')
        else false end
$$;
