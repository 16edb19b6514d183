-- Starts archiving a day of history: from now on every change of it is recorded. Returns the number of the
-- attempt, which end_archive() takes; null if there is no such day. Ends earlier attempts.
create or replace function txqueue.begin_archive(its_leaf text) returns integer
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
set lock_timeout = '2s'
as $$
declare
    due     record;
    attempt integer;
begin
    select * into due from history_due((clock_timestamp() at time zone 'UTC')::date) as day where day.leaf = its_leaf;
    if not found then
        return null;
    end if;
    if not exists (select from pg_trigger where tgrelid = its_leaf::regclass and tgname = 'archiving') then
        -- Waits for transactions that are changing a row.
        execute format('create trigger archiving after insert or update or delete on %I
                        for each row execute function note_history_change()', its_leaf);
    end if;
    insert into archived as former (leaf, state, day) values (its_leaf, due.state::job_state, due.day)
        on conflict (leaf) do update set attempt = former.attempt + 1, verified_at = null, dropped_at = null
        returning former.attempt into attempt;
    return attempt;
end $$;
