-- Refuses a job because another holds its unique key, with an error of its own.
create or replace function txqueue.refuse_duplicate(its_work_type text, holder bigint) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    raise exception using errcode = 'TXQ03', message = format('job %s of %s has the same unique key', holder, its_work_type),
        hint = 'enqueue it when that one has ended, or with another unique_mode';
end $$;
