-- Makes the next job of a unique key ready when its holder ends, or frees the key. A key locked by an open
-- transaction is left for propagate_late_ends(), as no completion waits for an application. Returns the first of the
-- jobs that may have become ready; its rank is null if there are none.
create or replace function txqueue.pass_on_unique_keys(ids bigint[]) returns txqueue.ready_head
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    held  unique_job;
    next  job;
    seen  bigint[] := '{}';
    freed ready_head;
begin
    for held in
        select * from unique_job where job_id = any (ids) or next_id = any (ids)
         order by work_type, key for update skip locked
    loop
        seen := seen || held.job_id || held.next_id;
        next := null;
        if held.job_id = any (ids) then
            delete from job_waiting where job_id = held.next_id and waiting_for = 'unique' returning * into next;
            if has_large_values(next) and fail_if_damaged(next) then
                next := null;
            end if;
        end if;
        if next.job_id is not null then
            next := make_eligible(next);
            insert into job values (next.*);
            update unique_job set job_id = next.job_id, next_id = null
             where work_type = held.work_type and key = held.key;
            freed := least(freed, row(null, null, next.rank, next.job_id, null, null)::ready_head);
        elsif held.job_id = any (ids) then
            delete from unique_job where work_type = held.work_type and key = held.key;
        else
            update unique_job set next_id = null where work_type = held.work_type and key = held.key;
        end if;
    end loop;
    perform note_late_ends(array(
        select id from unique_job as other, lateral (values (other.job_id), (other.next_id)) as each (id)
         where (other.job_id = any (ids) or other.next_id = any (ids)) and id = any (ids) and id <> all (array_remove(seen, null))));
    return freed;
end $$;
