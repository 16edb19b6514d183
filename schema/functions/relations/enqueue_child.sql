-- Enqueues a job that waits until others have ended: all as done, or in any way. A job that can never run is
-- enqueued as cancelled. Returns its number.
create or replace function txqueue.enqueue_child(this job, after bigint[], its_any_end boolean) returns bigint
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
declare
    parents bigint[] := array(select distinct id from unnest(after) as id order by id);
    others  bigint[];
    missing bigint;
begin
    if cardinality(parents) > 1000000 or array_position(parents, null) is not null then
        perform refuse('after has a null or more than a million jobs', 'pass the numbers of the jobs to wait for');
    end if;
    others := link_parents(this.job_id, parents, its_any_end);
    select id into missing from unnest(others) as id
     where not exists (select from job_parent where child = this.job_id and parent = id) limit 1;
    if found then
        perform refuse(format('there is no job %s to wait for', missing), 'enqueue it first, and commit that or use the same transaction');
    end if;
    this := hold_for_parents(add_parent_ids(this, parents, its_any_end), others);
    insert into job values (this.*);
    return this.job_id;
end $$;
