-- Enqueues a job that waits until others have ended: all as done, or in any way. One that can never run any more is put
-- as cancelled, as if it had been there before. Returns its number.
--
-- Jobs of this very transaction are marked as followed. Others may end meanwhile, and their rows must not be held
-- for as long as an application's transaction lasts: see follow_late().
create or replace function @schema@.put_child(this job, after bigint[], its_any_end boolean) returns bigint
language plpgsql volatile
set search_path = @schema@, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_custom_plan
as $$
declare
    parents bigint[] := array(select distinct id from unnest(after) as id order by id);
    missing bigint;
    failed  record;
    own     bigint[];
    others  bigint[];
begin
    if cardinality(parents) > 1000000 or array_position(parents, null) is not null then
        perform refuse('after has a null or more than a million jobs', 'pass the numbers of the jobs to wait for');
    end if;
    with marked as (
        update job set followed = 1
         where job_id = any (parents) and state in ('waiting', 'ready', 'assigned') and xmin = pg_current_xact_id()::xid
        returning job_id
    )
    select coalesce(array_agg(job_id), '{}') into own from marked;
    others := array(select id from unnest(parents) as id where id <> all (own));
    insert into job_parent (child, parent, any_end) select this.job_id, id, its_any_end from unnest(own) as id;
    if others <> '{}' then
        -- Most have not ended; only for the rest are all the days of history looked through.
        insert into job_parent (child, parent, any_end)
        select this.job_id, job_id, its_any_end from job
         where job_id = any (others) and state in ('waiting', 'ready', 'assigned');
        if exists (select from unnest(others) as id
                    where not exists (select from job_parent where child = this.job_id and parent = id)) then
            insert into job_parent (child, parent, any_end, ended)
            select this.job_id, job_id, its_any_end, case when state in ('done', 'failed', 'cancelled') then state::text end
              from job where job_id = any (others)
                on conflict do nothing;
        end if;
    end if;
    select id into missing from unnest(others) as id
     where not exists (select from job_parent where child = this.job_id and parent = id) limit 1;
    if found then
        perform refuse(format('there is no job %s to wait for', missing), 'enqueue it first, and commit that or use the same transaction');
    end if;
    select parent, ended into failed from job_parent
     where child = this.job_id and ended in ('failed', 'cancelled') and not its_any_end order by parent limit 1;
    if found then
        this := orphaned(this, failed.parent, failed.ended);
    elsif exists (select from job_parent where child = this.job_id and ended is null) then
        this.state := 'waiting';
        this.waiting_for := 'parents';
        this.followed := 1;
        perform note_unfollowed(array(
            select parent from job_parent where child = this.job_id and ended is null and parent = any (others)));
    else
        this := with_ends(this);
    end if;
    insert into job values (this.*);
    if this.waiting_for is distinct from 'parents' then
        delete from job_parent where child = this.job_id;
    end if;
    return this.job_id;
end $$;
