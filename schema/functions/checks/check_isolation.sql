-- Refuses to go on in a transaction that sees only what was committed when it began: what has been parked
-- or has moved since would be missed, and never run.
create or replace function txqueue.check_isolation(what text) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform refuse(format('%s in a transaction that is %s', what, current_setting('transaction_isolation')),
                       'make it read committed; see default_transaction_isolation of the server, the database and the role');
    end if;
end $$;
