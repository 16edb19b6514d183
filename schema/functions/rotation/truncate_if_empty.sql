-- Truncates one lane if it is empty but for remnants (see leave_remnant), under a lock with a very short timeout. Never in a transaction that
-- cannot see rows committed since it began, and never while a pg_dump of this database has its snapshot:
-- pg_dump locks the tables one after the other, and would find the jobs of its snapshot neither in this lane
-- nor, as later commits, in their new place.
create or replace function txqueue.truncate_if_empty(leaf text) returns boolean
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set lock_timeout = '50ms'
as $$
declare
    is_empty boolean;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        return false;
    end if;
    if exists (select from pg_stat_activity
                where application_name = 'pg_dump' and backend_xmin is not null
                  and datid = (select oid from pg_database where datname = current_database())) then
        return false;
    end if;
    execute format('lock table %I in access exclusive mode', leaf);
    execute format('select not exists (select from %I where job_id > 0)', leaf) into is_empty;
    if is_empty then
        execute format('truncate %I', leaf);
    end if;
    return is_empty;
exception when lock_not_available then
    return false;
end $$;
