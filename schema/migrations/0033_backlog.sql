-- serves: 7
-- The backlog of a queue counts its waiting jobs, by an index that set_limit() makes with the first such limit: it would
-- cost each waiting job a tenth of its enqueue.

do $$
begin
    if exists (select from txqueue.control where backlog is not null) then
        create index if not exists job_waiting_queue_idx on txqueue.job_waiting (queue);
    end if;
end $$;
comment on column txqueue.control.backlog is 'How many jobs of this queue may wait or be ready before more are refused.';
