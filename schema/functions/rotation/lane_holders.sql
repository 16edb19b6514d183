-- The transactions that use a lane now, each as the lane's name and the transaction's.
create or replace function txqueue.lane_holders(leaf text) returns text[]
language sql volatile
set search_path = txqueue, pg_temp
as $$
    select coalesce(array_agg(format('%s %s', leaf, virtualtransaction)), '{}')
      from pg_locks
     where locktype = 'relation' and relation = leaf::regclass and granted and pid <> pg_backend_pid()
       and database = (select oid from pg_database where datname = current_database())
$$;
