-- Refuses a job because its queue is full, with an error of its own: the job may be enqueued later.
create or replace function txqueue.refuse_full_queue(its_queue text) returns text
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    raise exception using errcode = 'TXQ02', message = format('the queue %s is full', its_queue),
        hint = format('enqueue it again later, or raise the limit: txqueue limit queue %s --backlog N',
                      case when its_queue ~ E'^-|[\\u0001-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]' then 'NAME'
                           when its_queue ~ '^[A-Za-z0-9_@%+=:,./-]+$' then its_queue
                           else '''' || replace(its_queue, '''', '''"''"''') || '''' end);
end $$;
