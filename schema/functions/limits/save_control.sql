-- Stores a control, or removes it if it is empty, and makes the jobs ready that it delayed.
create or replace function txqueue.save_control(this control) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    if not this.is_paused and this.concurrency is null and this.rate is null and this.burst = 1 and this.share = 1
       and this.reserve = 0 and this.backlog is null then
        delete from control where kind = this.kind and key = this.key;
    else
        update control
           set is_paused = this.is_paused, concurrency = this.concurrency, rate = this.rate, burst = this.burst,
               share = this.share, reserve = this.reserve, backlog = this.backlog,
               is_full = this.is_full and this.backlog is not null
         where kind = this.kind and key = this.key;
    end if;
    if this.kind = 'group' then
        -- The moment for which one of them waits was that of the former rate.
        update job_waiting set waiting_for = 'group' where waiting_for = 'rate' and "group" = this.key;
        delete from group_front where "group" = this.key;
        perform free_groups(array[this.key]);
    end if;
    perform refresh_backlog_flags();
    perform pg_notify('txqueue', '');
end $$;
