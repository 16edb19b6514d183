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
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
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
