-- The sequences and flags that are behind their tables, as in a database that logical replication or a dump of
-- data only has filled: their values, null for one that is missing, and what they need at least. With
-- is_thorough false it reads no table without an index for it.
create or replace function txqueue.lagging_sequences(is_thorough boolean default true)
returns table (name text, present bigint, needed bigint)
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    -- Nodes switch it, so that it is looked at before and after the table.
    late    constant bigint := coalesce(pg_sequence_last_value('has_late_ends'), 0);
    its     record;
    highest bigint;
begin
    for its in
        select attname, relname, pg_get_serial_sequence(format('%I.%I', 'txqueue', relname), attname) as sequence
          from pg_attribute join pg_class on pg_class.oid = attrelid
         where relnamespace = 'txqueue'::regnamespace and relkind in ('r', 'p') and attidentity <> '' and not attisdropped
         order by relname
    loop
        execute format('select max(%I) from %I', its.attname, its.relname) into highest;
        if highest > coalesce(pg_sequence_last_value(its.sequence::regclass), 0) then
            return query select split_part(its.sequence, '.', 2), coalesce(pg_sequence_last_value(its.sequence::regclass), 0), highest;
        end if;
    end loop;
    return query
    select wanted.name, coalesce(pg_sequence_last_value(wanted.name::regclass), 0), wanted.needed
      from (values
        ('job_id', (select max(job_id) from job)),
        ('assignment', (select max(assignment) >> 22 from job_assigned)),
        ('front_number', (select max(number) from group_front)),
        ('incarnation', (select max(incarnation)::bigint from node_info where incarnation < 1073741824)),
        ('has_limits', (select 1 where exists (select from control))),
        ('has_late_ends', (select 1 where late = 0 and exists (select from late_end))),
        ('has_signals', (select 1 where exists (select from job_signal))),
        ('has_tenants', (
            select 1 where exists (select from job_ready where tenant is not null)
                or exists (select from job_assigned where tenant is not null)
                or is_thorough and exists (select from job_waiting where tenant is not null)
                or is_thorough and exists (select from job_failed where tenant is not null)))
        ) as wanted (name, needed)
     where wanted.needed > coalesce(pg_sequence_last_value(wanted.name::regclass), 0);
    return query
    select 'bucket_' || control_id, null::bigint, 0::bigint from control
     where rate is not null and to_regclass(format('%I.%I', 'txqueue', 'bucket_' || control_id)) is null;
end $$;
