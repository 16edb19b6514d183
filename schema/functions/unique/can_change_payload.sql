-- Whether a job may be given another payload in a transaction that may stay open for long: no other session waits for its row. A
-- claim skips it; but the completion of a job of a group waits for the group's next.
create or replace function txqueue.can_change_payload(this job) returns boolean
language sql immutable
set search_path = txqueue, pg_temp
as $$
    select case this.state
        when 'ready' then this."group" is null
        when 'waiting' then this.waiting_for in ('time', 'type', 'unique')
        else false end
$$;
