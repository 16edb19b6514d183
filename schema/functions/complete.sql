-- Completes jobs that returned nothing: one element an assignment, its lane and its job numbers as
-- the text of a bigint array. Rows that another assignment has since taken are not touched.
-- Returns how many jobs it completed.
create or replace function @schema@.complete(
    its_incarnation integer, lanes smallint[], assignments bigint[], ids text[])
returns integer
language plpgsql volatile security definer
set search_path = @schema@, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    total   integer := 0;
    moved   integer;
    keys    text[];
    groups  text[];
begin
    for each in 1 .. cardinality(lanes) loop
        select done.jobs, done.groups into moved, keys
          from complete_in(format('job_assigned_%s', lanes[each]), its_incarnation, assignments[each], ids[each]) as done;
        total := total + moved;
        groups := groups || keys;
        -- A job that ran long may have been moved to another lane by rotation.
        if moved < cardinality(ids[each]::bigint[]) then
            select done.jobs, done.groups into moved, keys
              from complete_in('job_assigned', its_incarnation, assignments[each], ids[each]) as done;
            total := total + moved;
            groups := groups || keys;
        end if;
    end loop;
    if groups is not null then
        perform free_groups(groups);
    end if;
    return total;
end $$;
