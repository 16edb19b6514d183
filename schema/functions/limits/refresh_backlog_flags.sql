-- Updates whether queues with a limited backlog are full, in which case enqueue() refuses jobs: full from the
-- limit on, open again below nine tenths of it. Does nothing while another session does this.
create or replace function txqueue.refresh_backlog_flags() returns void
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
set enable_seqscan = off
as $$
declare
    this    control;
    waiting bigint;
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
    for this in select * from control where backlog is not null loop
        -- Each index covers one of the two kinds.
        select count(*) into waiting from (
            (select from job_ready where queue = this.key and tenant is null limit this.backlog)
            union all
            (select from job_ready where queue = this.key and tenant is not null limit this.backlog)) as counted;
        update control set is_full = not is_full
         where kind = 'queue' and key = this.key
           and is_full <> (waiting >= case when is_full then this.backlog - this.backlog / 10 else this.backlog end);
    end loop;
end $$;
