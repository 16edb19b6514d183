-- Creates a workset, or updates its stored policy: an object with name, work_type, job, size, batch, bound,
-- and source or columns. A workset without a source gets a table workset_<name> with a column for each field,
-- as [name, type] of a few types. The first login that is no node's owns it: another application cannot change
-- it. Returns its number.
create or replace function txqueue.ensure_workset(spec jsonb) returns integer
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    its     workset := jsonb_populate_record(null::workset, spec - 'workset_id');
    leaf    text := 'workset_' || its.name;
    quoted_columns text;
    former  text;
    reader  text;
    number  integer;
    is_node constant boolean := is_member('txqueue_worker') or pg_has_role(session_user, current_user, 'member');
begin
    -- Usually nothing changes, and sessions that fill a workset need not wait for each other.
    select workset_id into number from workset as known
     where (known.name, known.work_type, known.job, known.size, known.batch) = (its.name, its.work_type, its.job, its.size, its.batch)
       and (known.bound, known.source) is not distinct from (its.bound, its.source)
       and (its.source is not null or to_regclass(leaf) is not null)
       and (known.owner is not null or is_node);
    if found then
        return number;
    end if;
    perform lock_workset(its.name, true);
    select work_type, owner into former, its.owner from workset where name = its.name;
    if former <> its.work_type then
        perform refuse(format('the workset %s belongs to the work type %s', its.name, former), 'give this one another name');
    end if;
    if not (is_node or is_member(its.owner)) then
        perform refuse(format('the workset %s belongs to the login %s', its.name, its.owner),
                       'give yours another name, or change it as that login or by a node');
    end if;
    if former is null and its.source is null and to_regclass(quote_ident(leaf)) is not null then
        perform refuse(format('the name of the workset %s is taken', its.name), 'take another: its table would be one that there is');
    end if;
    its.owner := coalesce(its.owner, case when not is_node then session_user end);
    insert into workset as known (name, work_type, source, job, size, batch, bound, is_cut, owner)
    values (its.name, its.work_type, its.source, its.job, its.size, its.batch, its.bound, its.source is null, its.owner)
    on conflict (name) do update set job = excluded.job, size = excluded.size, batch = excluded.batch, bound = excluded.bound,
                                     owner = excluded.owner
     where (known.job, known.size, known.batch, known.bound, known.owner)
           is distinct from (excluded.job, excluded.size, excluded.batch, excluded.bound, excluded.owner);
    select workset_id into number from workset where name = its.name;
    if its.source is null and to_regclass(leaf) is null then
        select coalesce(string_agg(format(', %I %s', field ->> 0, field ->> 1), '' order by place), '') into quoted_columns
          from jsonb_array_elements(spec -> 'columns') with ordinality as each (field, place)
         where field ->> 1 in ('bigint', 'text', 'boolean', 'double precision', 'uuid', 'jsonb');
        execute format('create table %I (_part bigint, _number integer%s, primary key (_part, _number))', leaf,
                       quoted_columns);
        foreach reader in array array['txqueue_worker', 'txqueue_read'] loop
            if to_regrole(reader) is not null then
                execute format('grant select on %I to %I', leaf, reader);
            end if;
        end loop;
    end if;
    return number;
end $$;
