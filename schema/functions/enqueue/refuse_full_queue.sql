-- Refuses a job because its queue is full, with an error of its own: the job may be enqueued later.
create or replace function txqueue.refuse_full_queue(its_queue text) returns text
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    raise exception using errcode = 'TXQ02', message = format('the queue %s is full', its_queue),
        hint = 'enqueue it again later, or raise the limit: txqueue limit queue NAME --backlog N';
end $$;
