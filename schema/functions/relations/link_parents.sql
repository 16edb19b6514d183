-- Stores the parents of a job, and the outcomes of ended ones; returns the parents that are not of this
-- transaction, as those may end meanwhile: see note_late_ends(). An archived parent has ended; one that does not exist gets no row.
--
-- Jobs of this transaction are marked as followed. The rows of others must not stay locked during an
-- application's transaction: see propagate_late_ends().
create or replace function txqueue.link_parents(child bigint, parents bigint[], its_any_end boolean) returns bigint[]
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
    own    bigint[];
    others bigint[];
begin
    with marked as (
        update job set followed = 1
         where job_id = any (parents) and state in ('waiting', 'ready', 'assigned') and xmin = pg_current_xact_id()::xid
        returning job_id
    )
    select coalesce(array_agg(job_id), '{}') into own from marked;
    others := array(select id from unnest(parents) as id where id <> all (own));
    insert into job_parent (child, parent, any_end) select link_parents.child, id, its_any_end from unnest(own) as id;
    if others <> '{}' then
        -- Most parents have not ended; only for the rest all days of history are searched.
        insert into job_parent (child, parent, any_end)
        select link_parents.child, job_id, its_any_end from job
         where job_id = any (others) and state in ('waiting', 'ready', 'assigned');
        if exists (select from unnest(others) as id
                    where not exists (select from job_parent where child = link_parents.child and parent = id)) then
            insert into job_parent (child, parent, any_end, ended)
            select link_parents.child, job_id, its_any_end, case when state in ('done', 'failed', 'cancelled') then state::text end
              from job where job_id = any (others)
                on conflict do nothing;
            insert into job_parent (child, parent, any_end, ended)
            select link_parents.child, id, its_any_end, past.state::text
              from unnest(others) as id, lateral (select its.state from find_archived(id) as its limit 1) as past
             where not exists (select from job_parent where child = link_parents.child and parent = id);
        end if;
    end if;
    return others;
end $$;
