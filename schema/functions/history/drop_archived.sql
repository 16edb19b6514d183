-- Drops a day of history that is archived and verified, unless a session uses history for longer than an
-- instant. A day that is not verified, or has changed since, stays. Returns whether it was dropped.
create or replace function txqueue.drop_archived(its_leaf text) returns boolean
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
set lock_timeout = '50ms'
as $$
begin
    if not exists (select from archived where leaf = its_leaf and verified_at is not null and dropped_at is null)
       or to_regclass(format('%I', its_leaf)) is null or not forget_steps(its_leaf) then
        return false;
    end if;
    execute format('lock table %I in access exclusive mode', its_leaf);
    -- Check again, as no session can change the day from here on.
    update archived set dropped_at = clock_timestamp()
     where leaf = its_leaf and verified_at is not null and dropped_at is null;
    if found then
        execute format('drop table %I', its_leaf);
        return true;
    end if;
    return false;
exception when lock_not_available or undefined_table then
    return false;
end $$;
