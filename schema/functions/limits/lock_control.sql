-- Returns the control of a queue, a group or a tenant, created if missing. No claim commits between this and
-- the end of the transaction: claims share the lock.
create or replace function txqueue.lock_control(its_kind text, its_key text) returns control
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    this control;
begin
    if its_kind is null or its_kind not in ('queue', 'group', 'tenant') then
        perform refuse(format('%s is neither a queue nor a group nor a tenant', coalesce(its_kind, 'nothing')),
                       'name one of the three kinds');
    end if;
    if coalesce(length(its_key), 0) not between 1 and 1000 then
        perform refuse(format('the name of a %s must have 1 to 1000 characters', its_kind), 'name the one that is meant');
    end if;
    -- A group's key first, as completions take it before they read its limits. Claims wait for no lock.
    if its_kind = 'group' then
        perform lock_keys(array[key_of(its_key)]);
    end if;
    lock table claiming in exclusive mode;
    -- Before the row, so that each enqueue that can see the row looks for it.
    perform setval('has_limits', 1);
    insert into control (kind, key) values (its_kind, its_key) on conflict do nothing;
    select * into strict this from control where kind = its_kind and key = its_key;
    return this;
end $$;
