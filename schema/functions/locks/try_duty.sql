-- Takes a duty until the end of the transaction, unless another session has it: one session at a time does it
-- for all.
create or replace function txqueue.try_duty(its_name text) returns boolean
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    perform from duty where name = its_name for update skip locked;
    return found;
end $$;
