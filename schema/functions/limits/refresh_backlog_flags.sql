-- Updates whether queues with a limited backlog are full, in which case enqueue() refuses jobs: full from the
-- limit on, open again below nine tenths of it. Does nothing while another session does this.
create or replace function txqueue.refresh_backlog_flags() returns void
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
set enable_seqscan = off
as $$
begin
    if not exists (select from control where backlog is not null) then
        return;
    end if;
    -- Older code sets a limit without it.
    if not has_limits() then
        perform setval('has_limits', 1);
    end if;
    if not try_duty('gauge') then
        return;
    end if;
    update control set is_full = not is_full
     where backlog is not null
       and is_full <> (count_backlog(key, backlog) >= case when is_full then backlog - backlog / 10 else backlog end);
end $$;
