-- Refuses transactions that see only rows committed before they began: they would miss jobs that were parked
-- or moved since, which then would never run.
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
