-- The process that has locked a row, by the row's xmax and the table that has it; null if none has. The xmax of a session
-- that locked the row in a savepoint, released by now, is no lock of its own, and that of several sessions is the number
-- of a list: then it is the oldest transaction that can have made it and has locked rows of that table.
create or replace function txqueue.row_locker(its_xmax xid, leaf oid) returns integer
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    latest  constant xid8 := pg_snapshot_xmax(pg_current_snapshot());
    lockers xid[] := array[its_xmax];
begin
    begin
        lockers := lockers || array(select xid from pg_get_multixact_members(its_xmax));
    exception when others then
        null;  -- It is the number of no list.
    end;
    return (
        select own.pid
          from unnest(lockers) as locker,
               -- Its number since the first transaction of all.
               lateral (select latest::text::bigint + age(latest::xid) - age(locker) as number) as whole,
               lateral (select number > 2 and age(locker) > 0 and pg_xact_status(number::text::xid8) = 'in progress' as is_open) as state
          join pg_locks as own on own.locktype = 'transactionid' and own.granted
          join pg_locks as its on its.pid = own.pid and its.relation = leaf and its.granted and its.mode like 'Row%'
         where own.transactionid = locker or is_open and age(own.transactionid) > age(locker)
         order by (own.transactionid = locker) desc, age(own.transactionid) desc limit 1);
end $$;
