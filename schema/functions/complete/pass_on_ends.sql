-- Does what follows when jobs are done, for complete(): updates the followers of those that have some, and makes parked
-- jobs of their groups ready. Returns the first of the jobs that may have become ready; its rank is null if there are
-- none.
create or replace function txqueue.pass_on_ends(followed bigint[], groups text[]) returns txqueue.ready_head
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    first ready_head;
begin
    if followed is not null then
        first := propagate_ends(followed, 'done');
    end if;
    if groups is not null then
        first := least(first, free_groups(groups));
    end if;
    return first;
end $$;
