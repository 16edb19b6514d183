-- Checks of values and damaged rows: what programs call comes first, then its steps and what they use.

-- Sets the sequences and flags that are behind their tables, and returns the names of those that were; see
-- lagging_sequences(). Called by each migration and by each node that starts.
create or replace function txqueue.advance_sequences(is_thorough boolean default true) returns text[]
language plpgsql volatile security definer
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

-- The sequences and flags that are behind their tables, as in a database that logical replication or a dump of
-- data only has filled: their values, null for one that is missing, and what they need at least. With
-- is_thorough false it reads no table without an index for it.
create or replace function txqueue.lagging_sequences(is_thorough boolean default true)
returns table (name text, present bigint, needed bigint)
language plpgsql volatile security definer
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

-- Refuses transactions that see only rows committed before they began: they would miss jobs that were parked
-- or moved since, which then would never run.
create or replace function txqueue.check_isolation(what text) returns void
language plpgsql volatile
as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform refuse(format('%s in a transaction that is %s', what, current_setting('transaction_isolation')),
                       'make it read committed; see default_transaction_isolation of the server, the database and the role');
    end if;
end $$;

-- Raises an error from inside an expression, only for the row that is not valid.
create or replace function txqueue.refuse(reason text, remedy text) returns text
language plpgsql volatile
as $$
begin
    raise exception using errcode = 'TXQ01', message = reason, hint = remedy;
end $$;

-- Stores a job whose row was just deleted as failed if some of its values are lost, as nothing can move them: one
-- damaged job must not stop the jobs before it, its group, or the heartbeats that rescue it. Returns whether it was
-- damaged. Callers ask has_large_values() first, which is cheaper.
create or replace function txqueue.fail_if_damaged(this job) returns boolean
language plpgsql volatile
as $$
declare
    fault text;
begin
    begin
        -- Each value is read whole. Nothing is written in this block, which would number a subtransaction.
        if num_nulls(jsonb_typeof(this.payload), jsonb_typeof(this.options), jsonb_typeof(this.result),
                     jsonb_typeof(this.progress), length(this.error)) >= 0 then
            return false;
        end if;
    exception when internal_error or system_error then
        fault := sqlerrm;
    end;
    return fail_faulty(this, 'its row is damaged', fault);
end $$;

-- Stores a job with a fault as failed; one that has ended keeps its end. Values that are lost are dropped: its payload
-- becomes what readable_json() shows of one that is damaged, so that no act runs the job without it. What follows from
-- its failure is left for propagate_late_ends() and free_late_groups(), as the caller moves other jobs. Returns true:
-- called in an expression, as a statement would read the whole job.
create or replace function txqueue.fail_faulty(this job, what text, fault text) returns boolean
language plpgsql volatile
as $$
begin
    if this.state not in ('done', 'failed', 'cancelled') then
        this.state := 'failed';
        this.failed_at := clock_timestamp();
    end if;
    this.waiting_for := null;
    this.finished_at := coalesce(this.finished_at, clock_timestamp());
    this.error := format('%s: %s', what, fault);
    if find_damage(this.options, this.payload, this.result, this.progress) is not null then
        this.payload := jsonb_build_object('txqueue cannot read this', fault);
        this.options := null;
        this.result := null;
        this.progress := null;
        this.error := this.error || '; its payload was lost';
    end if;
    this.fingerprint := case when this.state = 'failed' then fingerprint(this.error) end;
    insert into job values (this.*);
    if this.followed is not null then
        perform note_late_ends(array[this.job_id]);
    end if;
    if this."group" is not null then
        delete from group_hold where group_hold.job_id = this.job_id;
        insert into late_group values (this."group");
    end if;
    return true;
end $$;

-- Whether values of an unended job may be stored apart from its row, where they can be lost: it looks at sizes, for
-- which nothing is read. Without settings of its own, so that it is inlined. See fail_if_damaged().
create or replace function txqueue.has_large_values(this txqueue.job) returns boolean
language sql stable  -- inlined
as $$
    select greatest(pg_column_size(this.payload), pg_column_size(this.options), pg_column_size(this.progress),
                    pg_column_size(this.error)) >= 200
$$;

-- Whether a text is a valid value of a type; PostgreSQL 16 and later have pg_input_is_valid().
create or replace function txqueue.is_input(given text, its_type regtype) returns boolean
language plpgsql stable
as $$
begin
    if its_type is null then
        return false;
    end if;
    execute format('select %L::%s', given, its_type);
    return true;
exception when data_exception then
    return false;
end $$;

-- Whether the login of the session is a member of a role: true for no role, false for one that there is not.
create or replace function txqueue.is_member(role text) returns boolean
language sql stable  -- inlined
as $$ select coalesce(pg_has_role(session_user, to_regrole(quote_ident(role))::oid, 'member'), role is null) $$;

-- Those of some jobs in some states whose rows can be read whole, so that they can move: an act of an operator on
-- several jobs leaves a damaged one as it is, and changes the others. See find_damage().
create or replace function txqueue.sound_jobs(ids bigint[], states job_state[]) returns bigint[]
language sql stable
set enable_seqscan = off
as $$
    select array(
        select job_id from job
         where job_id = any (ids) and state = any (states)
           and find_damage(options, payload, result, progress, error) is null)
$$;

-- What of a job cannot be read because its row is damaged, and why; null if all of it can. A value that the caller
-- does not read may be left out. Not in SQL: the plan of a statement would read the values before they are checked.
create or replace function txqueue.find_damage(
    options jsonb default null, payload jsonb default null, result jsonb default null, progress jsonb default null,
    error text default null) returns text
language plpgsql stable security definer
as $$
declare
    mark   constant text := 'txqueue cannot read this';
    faults text[];
    names  text[];
begin
    faults := array[readable_json(payload) ->> mark, readable_json(options) ->> mark, readable_json(result) ->> mark,
                    readable_json(progress) ->> mark, substring(readable_text(error) from '^' || mark || ': (.*)')];
    if array_remove(faults, null) = '{}' then
        return null;
    end if;
    names := array(select name from unnest(faults, array['payload', 'options', 'result', 'progress', 'error']) as each (fault, name)
                    where fault is not null);
    return format('its %s cannot be read: %s', array_to_string(names, ' and its '), (array_remove(faults, null))[1]);
end $$;

-- A value as it is, or an object with the error if it cannot be read because its row is damaged: for lists of rows,
-- which one of them would make fail. Errors of the server itself are not caught.
create or replace function txqueue.readable_json(value jsonb) returns jsonb
language plpgsql stable strict security definer
as $$
begin
    -- The conversion reads all of it. An expression is faster than a statement.
    return case when value::text is not null then value end;
exception when data_exception or internal_error or program_limit_exceeded or system_error then
    return jsonb_build_object('txqueue cannot read this', sqlerrm);
end $$;

-- A text as it is, or the error if it cannot be read because its row is damaged; see readable_json().
create or replace function txqueue.readable_text(value text) returns text
language plpgsql stable strict security definer
as $$
begin
    -- To count characters reads all of it; octet_length() would not.
    return case when length(value) is not null then value end;
exception when data_exception or internal_error or program_limit_exceeded or system_error then
    return format('txqueue cannot read this: %s', sqlerrm);
end $$;
