-- Worksets: what programs call comes first, then its steps and what they use.

-- Adds parts of an application's table, each from one key to another with its number of items, read by the
-- holder of the lock of lock_next_cut(); is_all means that no rows follow.
create or replace function txqueue.add_parts(
    its_name text, firsts text[], lasts text[], counts integer[], is_all boolean)
returns void
language plpgsql volatile security definer
as $$
begin
    insert into workset_part (workset_id, origin, first, last, items)
    select workset.workset_id, 0, first, last, items
      from workset, unnest(firsts, lasts, counts) with ordinality as each (first, last, items, place)
     where workset.name = its_name order by place;
    update workset set is_cut = is_all, cut_to = coalesce(lasts[cardinality(lasts)], cut_to) where name = its_name;
end $$;

-- Ends a job of a workset in the caller's transaction, completing it: done if no part is left, or replaced by
-- a new job, so that other jobs get their turn. Returns false if there is more to do, or a session is filling
-- the workset.
create or replace function txqueue.end_slot(
    its_incarnation integer, its_assignment bigint, its_job_id bigint, its_name text, is_renewed boolean)
returns boolean
language plpgsql volatile security definer
as $$
declare
    its  workset;
    mine workset_slot;
begin
    if is_renewed then
        select * into strict its from workset where name = its_name;
    else
        select * into its from workset where name = its_name for no key update skip locked;
        if not found or not its.is_cut
           or exists (select from workset_part where workset_id = its.workset_id and job_id is null) then
            return false;
        end if;
    end if;
    perform complete_one(its_incarnation, its_assignment, its_job_id, null);
    if is_renewed then
        update workset_slot set job_id = (enqueue_many(jsonb_build_array(its.job)))[1] where workset_slot.job_id = its_job_id;
        return true;
    end if;
    delete from workset_slot where workset_slot.job_id = its_job_id returning * into mine;
    update workset set done = workset.done + coalesce(mine.done, 0), failed = workset.failed + coalesce(mine.failed, 0)
     where workset_id = its.workset_id;
    return true;
end $$;

-- Creates a workset, or updates its stored policy: an object with name, work_type, job, size, batch, bound,
-- and source or columns. A workset without a source gets a table workset_<name> with a column for each field,
-- as [name, type] of a few types. The first login that is no node's owns it: another application cannot change
-- it. Returns its number.
create or replace function txqueue.ensure_workset(spec jsonb) returns integer
language plpgsql volatile security definer
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

-- Locks the name of a workset until the end of the transaction, which may be an application's, so these keys
-- are separate from those of groups. Waits for another session or not, as the caller chooses; returns whether
-- it has the lock.
create or replace function txqueue.lock_workset(its_name text, may_wait boolean) returns boolean
language plpgsql volatile
as $$
declare
    its_key constant smallint := 16384 + (hashtextextended(its_name, 839) & 255);
begin
    if may_wait then
        perform from key_lock where key = its_key for update;
    else
        perform from key_lock where key = its_key for update skip locked;
    end if;
    return found;
end $$;

-- Puts items, an array of objects, into a workset's own table in the caller's transaction, and divides them
-- into parts: a part and all its items become visible at the same moment. Returns how many. A started workset
-- whose jobs have ended gets new ones. Refused if the workset has reached its bound.
create or replace function txqueue.fill_workset(its_name text, items jsonb) returns bigint
language plpgsql volatile security definer
as $$
declare
    its     workset;
    total   integer := jsonb_array_length(items);
    parts   bigint[];
    quoted_names   text;
    quoted_columns text;
    quoted_aliases text;
    held    bigint;
begin
    -- Shared: a job of the workset ends only when no session is filling it.
    select * into its from workset where name = its_name for share;
    if not found or its.source is not null then
        perform refuse(format('there is no workset %s to fill', its_name), 'worksets are made by the client that fills them, in Python');
    end if;
    perform check_workset_table(its_name);
    if its.bound is not null then
        select sum(part.items) into held from workset_part as part where part.workset_id = its.workset_id;
        if coalesce(held, 0) + total > its.bound then
            raise exception using errcode = 'TXQ02', message = format('the workset %s is full: at most %s items may remain in it', its_name, its.bound),
                hint = 'fill it again later, or give its class a larger bound';
        end if;
    end if;
    if total = 0 then
        return 0;
    end if;
    parts := array(select nextval('workset_part_part_id_seq') from generate_series(1, ceil(total / its.batch::numeric)::integer));
    -- A function's column list cannot be empty.
    select names, coalesce(nullif(ltrim(typed, ', '), ''), '_nothing text'),
           coalesce(nullif(ltrim(names, ', '), ''), '_nothing')
      into quoted_names, quoted_columns, quoted_aliases from workset_columns(its_name);
    execute format(
        'insert into %I (_part, _number%s)
         select $2[1 + (_place - 1) / $3], 1 + (_place - 1) %% $3%s
           from rows from (jsonb_to_recordset($1) as (%s)) with ordinality as each (%s, _place)',
        'workset_' || its_name, quoted_names, quoted_names, quoted_columns, quoted_aliases)
      using items, parts, its.batch;
    insert into workset_part (part_id, workset_id, origin, items) overriding system value
    select part, its.workset_id, part, least(its.batch, total - its.batch * (place - 1)::integer)
      from unnest(parts) with ordinality as each (part, place);
    if its.is_started then
        perform fill_slots(its.workset_id);
    end if;
    return total;
end $$;
comment on function txqueue.fill_workset(text, jsonb) is 'Put items into a workset in the caller''s transaction.';

-- Refuses a workset whose own table is missing: the error of a statement would look like one of an old schema.
create or replace function txqueue.check_workset_table(its_name text) returns void
language plpgsql stable
as $$
begin
    if to_regclass('workset_' || its_name) is null then
        perform refuse(format('the table workset_%s of the workset %s is missing', its_name, its_name),
                       'restore it; or put its items into it again by fill(), which makes the table');
    end if;
end $$;

-- The fields of the items in a workset's own table, all quoted: each name after a comma, the same with types,
-- and the names as a list that is never empty.
create or replace function txqueue.workset_columns(its_name text, out names text, out typed text, out fields text)
language sql stable
as $$
    select coalesce(string_agg(', ' || quote_ident(attname), '' order by attnum), ''),
           coalesce(string_agg(format(', %I %s', attname, format_type(atttypid, atttypmod)), '' order by attnum), ''),
           coalesce(string_agg(quote_ident(attname), ', ' order by attnum), 'null as _nothing')
      from pg_attribute where attrelid = to_regclass('workset_' || its_name) and attnum > 2 and not attisdropped
$$;

-- Enqueues jobs of a workset up to its size, but no more than there are parts.
create or replace function txqueue.fill_slots(its_workset integer) returns integer
language plpgsql volatile
as $$
declare
    its      workset;
    live     integer;
    missing  integer;
begin
    select * into strict its from workset where workset_id = its_workset;
    -- Sessions that fill a running workset need not wait for each other.
    for round in 1 .. 2 loop
        select count(*) into live from workset_slot where workset_id = its_workset and job_id > 0 and is_live_job(job_id);
        select case when its.is_cut then least(its.size, count(*)) else its.size end - live into missing
          from (select from workset_part where workset_id = its_workset limit its.size) as parts;
        if missing <= 0 then
            return 0;
        end if;
        -- A live job finds all items, as it cannot end before the filling session has committed.
        if live = 0 then
            perform lock_workset('slots ' || its.name, true);
        elsif not lock_workset('slots ' || its.name, false) then
            return 0;
        end if;
    end loop;
    -- The counts of jobs that ended before the workset was done are kept under a number without a job.
    with gone as (
        delete from workset_slot where workset_id = its_workset and job_id > 0 and not is_live_job(job_id) returning *
    )
    insert into workset_slot as kept (job_id, workset_id, done, failed)
    select -its_workset, its_workset, sum(gone.done), sum(gone.failed) from gone having sum(gone.done + gone.failed) > 0
    on conflict (job_id) do update set done = kept.done + excluded.done, failed = kept.failed + excluded.failed;
    insert into workset_slot (job_id, workset_id)
    select job_id, its_workset
      from unnest(enqueue_many((select jsonb_agg(its.job) from generate_series(1, missing)))) as job_id;
    return missing;
end $$;

-- The position up to which an application's table is cut into parts: null if another session is cutting.
create or replace function txqueue.lock_next_cut(its_name text, out is_cut boolean, out cut_to text)
language plpgsql volatile security definer
as $$
begin
    if lock_workset('cut ' || its_name, false) then
        select workset.is_cut, workset.cut_to into is_cut, cut_to from workset where name = its_name;
    end if;
end $$;

-- Called by a job of a workset, fenced by its token: counts the part that it has processed, if given, and
-- takes the next. A part that it already held was not finished by an earlier run. If there is nothing to
-- take, due_in has the seconds until the next part is due, null for none. If held is false, the job has
-- another assignment.
create or replace function txqueue.next_part(
    its_incarnation integer, its_assignment bigint, its_job_id bigint, its_name text,
    performed bigint default null, failures jsonb default null,
    out held boolean, out part bigint, out first text, out last text, out keys text[], out items integer,
    out attempt integer, out taken integer, out content text, out due_in double precision)
language plpgsql volatile security definer
set enable_seqscan = off
-- The items are written as JSON, whatever the application's session says.
set "IntervalStyle" = postgres
set bytea_output = hex
set extra_float_digits = 1
as $$
declare
    its   workset;
    this  workset_part;
    since timestamptz;
    quoted_names  text;
    quoted_fields text;
begin
    -- Nearly all parts before its last one are done or held: this avoids reading dead index entries again.
    select mine.not_before into since from workset_part as mine where mine.part_id = performed and mine.job_id = its_job_id;
    held := performed is null or end_part(its_incarnation, its_assignment, its_job_id, performed, failures);
    if performed is null then
        perform from job_assigned as job
          where job.job_id = its_job_id and job.assignment = its_assignment and job.incarnation = its_incarnation
            for key share;
        held := found;
    end if;
    if not held then
        return;
    end if;
    select * into its from workset where name = its_name;
    for round in 1 .. 3 loop
        update workset_part as each set job_id = its_job_id, taken = each.taken + 1
         where each.part_id = coalesce(
                   case when since is null then
                       (select mine.part_id from workset_part as mine
                         where mine.workset_id = its.workset_id and mine.job_id = its_job_id limit 1) end,
                   (select free.part_id from workset_part as free
                     where free.workset_id = its.workset_id and free.job_id is null and free.not_before <= clock_timestamp()
                       and (free.not_before, free.part_id) > (coalesce(since, '-infinity'), coalesce(performed, 0))
                     order by free.not_before, free.part_id limit 1 for update skip locked))
        returning each.* into this;
        exit when found or round = 3;
        if since is not null then
            since := null;
            performed := null;
            continue;
        end if;
        -- Free the parts of jobs that have ended.
        update workset_part as each set job_id = null
         where each.part_id = any (array(
                   select lost.part_id from workset_part as lost
                    where lost.workset_id = its.workset_id and lost.job_id is not null and not is_live_job(lost.job_id)
                      for update skip locked));
        exit when not found;
    end loop;
    if this.part_id is null then
        select extract(epoch from min(free.not_before) - clock_timestamp()) into due_in
          from workset_part as free where free.workset_id = its.workset_id and free.job_id is null;
        return;
    end if;
    part := this.part_id;
    first := this.first;
    last := this.last;
    keys := this.keys;
    items := this.items;
    attempt := this.attempt;
    taken := this.taken;
    if its.source is null then
        perform check_workset_table(its_name);
        select names, fields into quoted_names, quoted_fields from workset_columns(its_name);
        execute format(
            'select json_agg(row_to_json(_item)), array_agg(_number::text) filter (where $2 is not null)
               from (select _number%s from %I where _part = $1 and ($2 is null or _number = any ($2)) order by _number) as _whole,
                    lateral (select %s) as _item',
            quoted_names, 'workset_' || its_name, quoted_fields)
           into content, keys using this.origin, this.keys::integer[];
    end if;
end $$;

-- Counts a part as processed, once and fenced by the job's token: returns false, and changes nothing, if the
-- job has another assignment or does not hold the part. Failed items are stored apart: an array of objects
-- with key and error, and delay (seconds) if they are retried.
create or replace function txqueue.end_part(
    its_incarnation integer, its_assignment bigint, its_job_id bigint, its_part bigint, failures jsonb default null)
returns boolean
language plpgsql volatile security definer
set enable_seqscan = off
as $$
declare
    this    workset_part;
    its     workset;
    again   text[] := '{}';
    lost    text[] := '{}';
begin
    with held as (
        select from job_assigned as job
         where job.job_id = its_job_id and job.assignment = its_assignment and job.incarnation = its_incarnation
           for key share
    )
    delete from workset_part where part_id = its_part and job_id = its_job_id and exists (select from held) returning * into this;
    if not found then
        return false;
    end if;
    select * into its from workset where workset_id = this.workset_id;
    if jsonb_array_length(failures) > 0 then
        with given as (
            select * from jsonb_to_recordset(failures) as each (key text, error text, delay double precision)
        ), kept as (
            insert into workset_failed (workset_id, origin, key, attempt, error)
            select this.workset_id, this.origin, key, this.attempt + 1, error from given where delay is null
            on conflict (workset_id, origin, key) do update set attempt = excluded.attempt, error = excluded.error, at = excluded.at
        ), put as (
            insert into workset_part (workset_id, origin, keys, items, attempt, not_before)
            select this.workset_id, this.origin, array_agg(key), count(*), this.attempt + 1,
                   clock_timestamp() + make_interval(secs => max(delay))
              from given where delay is not null having count(*) > 0
        )
        select coalesce(array_agg(key) filter (where delay is not null), '{}'),
               coalesce(array_agg(key) filter (where delay is null), '{}')
          into again, lost from given;
    end if;
    if its.source is null then
        execute format('delete from %I where _part = $1 and ($2 is null or _number = any ($2)) and _number <> all ($3)',
                       'workset_' || its.name)
          using this.origin, this.keys::integer[], (again || lost)::integer[];
    end if;
    -- A job that was cancelled and opened again may have lost its slot to another.
    insert into workset_slot as mine (job_id, workset_id, done, failed)
    values (its_job_id, this.workset_id, this.items - cardinality(again || lost), cardinality(lost))
        on conflict (job_id) do update set done = mine.done + excluded.done, failed = mine.failed + excluded.failed;
    return true;
end $$;

-- Retries all failed items of a workset, with all attempts. Returns how many.
create or replace function txqueue.retry_workset(its_name text) returns bigint
language plpgsql volatile security definer
as $$
declare
    its   workset;
    total bigint;
begin
    select * into its from workset where name = its_name for update;
    if not found then
        perform refuse(format('there is no workset %s', its_name), 'see: txqueue worksets');
    end if;
    with gone as (
        delete from workset_failed where workset_id = its.workset_id returning *
    ), numbered as (
        select gone.*, row_number() over (partition by origin order by key) as place from gone
    ), put as (
        insert into workset_part (workset_id, origin, keys, items)
        select its.workset_id, origin, array_agg(key), count(*)
          from numbered group by origin, (place - 1) / its.batch
    )
    select count(*) into total from gone;
    update workset set failed = failed - total where workset_id = its.workset_id;
    if its.is_started then
        perform fill_slots(its.workset_id);
    end if;
    return total;
end $$;

-- Divides a part that a job holds into smaller ones, so that the failing item is found and the others are not
-- affected. keys has the keys of all its items, in order.
create or replace function txqueue.split_workset_part(
    its_incarnation integer, its_assignment bigint, its_job_id bigint, its_part bigint, its_keys text[], size integer,
    delay double precision default 0)
returns boolean
language plpgsql volatile security definer
as $$
declare
    this workset_part;
begin
    with held as (
        select from job_assigned as job
         where job.job_id = its_job_id and job.assignment = its_assignment and job.incarnation = its_incarnation
           for key share
    )
    delete from workset_part where part_id = its_part and job_id = its_job_id and exists (select from held) returning * into this;
    if not found then
        return false;
    end if;
    insert into workset_part (workset_id, origin, keys, items, attempt, not_before)
    select this.workset_id, this.origin, array_agg(key order by place), count(*), this.attempt,
           clock_timestamp() + make_interval(secs => delay)
      from unnest(its_keys) with ordinality as each (key, place)
     group by (place - 1) / size order by (place - 1) / size;
    return true;
end $$;

-- Starts a workset; if an application's table was already worked through, starts again from its first row.
-- Sets the expected number of items. Returns how many jobs were enqueued.
create or replace function txqueue.start_workset(its_name text, its_items bigint default null) returns integer
language plpgsql volatile security definer
as $$
declare
    its workset;
begin
    select * into its from workset where name = its_name;
    if its.source is not null or not its.is_started then
        select * into its from workset where name = its_name for update;
    end if;
    if not found then
        perform refuse(format('there is no workset %s', its_name), 'start it from Python, with the class of its items');
    end if;
    if its.source is not null and (its.is_cut or not its.is_started)
       and not exists (select from workset_part where workset_id = its.workset_id) then
        delete from workset_failed where workset_id = its.workset_id;
        update workset_slot set done = 0, failed = 0 where workset_id = its.workset_id;
        update workset set is_cut = false, cut_to = null, done = 0, failed = 0, expected = coalesce(its_items, 0)
         where workset_id = its.workset_id;
    end if;
    update workset set is_started = true where workset_id = its.workset_id and not is_started;
    return fill_slots(its.workset_id);
end $$;

-- The progress of each workset, counted from its parts.
create or replace view txqueue.workset_status as
select workset.name, workset.work_type, workset.source, workset.size, workset.batch, workset.bound, workset.is_started,
       parts.parts, parts.held as running, parts.waiting_until,
       workset.done + slots.done as done, workset.failed + slots.failed as failed, slots.jobs,
       case when workset.is_cut then parts.items
            else greatest(parts.items, workset.expected - workset.done - slots.done - workset.failed - slots.failed) end as remaining,
       workset.is_cut as is_exact
  from txqueue.workset,
       lateral (select count(*) as parts, coalesce(sum(items), 0)::bigint as items, count(job_id) as held,
                       min(not_before) filter (where job_id is null and not_before > clock_timestamp()) as waiting_until
                  from txqueue.workset_part as part where part.workset_id = workset.workset_id) as parts,
       lateral (select coalesce(sum(slot.done), 0)::bigint as done, coalesce(sum(slot.failed), 0)::bigint as failed,
                       count(job.job_id) as jobs
                  from txqueue.workset_slot as slot
                  left join txqueue.job as job on job.job_id = slot.job_id and job.state in ('waiting', 'ready', 'assigned')
                 where slot.workset_id = workset.workset_id) as slots;
comment on view txqueue.workset_status is 'The progress of each workset.';
