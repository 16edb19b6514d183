-- Adds parts of an application's table, each from one key to another with its number of items, read by the
-- holder of the lock of lock_next_cut(); is_all means that no rows follow.
create or replace function txqueue.add_parts(
    its_name text, firsts text[], lasts text[], counts integer[], is_all boolean)
returns void
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
begin
    insert into workset_part (workset_id, origin, first, last, items)
    select workset.workset_id, 0, first, last, items
      from workset, unnest(firsts, lasts, counts) with ordinality as each (first, last, items, place)
     where workset.name = its_name order by place;
    update workset set is_cut = is_all, cut_to = coalesce(lasts[cardinality(lasts)], cut_to) where name = its_name;
end $$;
