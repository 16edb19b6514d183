-- The claim of a master that a notification has woken, for the usual shape of the queue: a few small jobs in
-- the current lane, and neither groups, tenants, limits nor suspects. It costs half as much as next_job(),
-- which a master must also call, every tenth of a second or so: other lanes, due jobs and late ends are only
-- seen there.
--
-- Returns one chunk of jobs in rank order; jobs is 0 if there are none. is_ordinary: if not, next_job() must
-- be called at once; nothing was taken.
create or replace function txqueue.claim_ready(
    its_node integer, its_incarnation integer, queues text[], work_types text[], at_most integer,
    out lane smallint, out assignment bigint, out jobs integer, out weight bigint, out chunk text, out is_ordinary boolean)
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    given   record;
begin
    -- As in next_job().
    lock table claiming in row share mode;
    is_ordinary := coalesce(pg_sequence_last_value('txqueue.has_late_ends'), 0) = 0
               and coalesce(pg_sequence_last_value('txqueue.has_tenants'), 0) = 0;
    jobs := 0;
    lane := current_lane();
    if is_ordinary then
        case lane
            when 0 then given := take_first_0(its_node, its_incarnation, queues, work_types, at_most);
        end case;
        assignment := given.assignment;
        jobs := given.jobs;
        weight := given.jobs;
        chunk := given.chunk;
        is_ordinary := given.is_ordinary;
    end if;
end $$;
