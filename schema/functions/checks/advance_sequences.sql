-- Sets the sequences and flags that are behind their tables, and returns the names of those that were; see
-- lagging_sequences(). Called by each migration and by each node that starts.
create or replace function txqueue.advance_sequences(is_thorough boolean default true) returns text[]
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    its      record;
    advanced text[] := '{}';
begin
    for its in select * from lagging_sequences(is_thorough) order by name loop
        if its.present is null then
            execute format('create sequence if not exists %I as bigint minvalue 0 start 0', its.name);
        else
            perform setval(its.name::regclass, its.needed);
        end if;
        advanced := advanced || its.name;
    end loop;
    return advanced;
end $$;
