-- Takes the jobs of one step of a claim from one lane and queue, in rank order: locks them, parks jobs of busy groups, leaves
-- those that do not fit, and assigns the others in chunks of at most chunk_jobs, at least one for each worker if there are
-- that many; first suspects, in a chunk of their own. Ordinary jobs are only locked, summed up and assigned.
--
-- found: how many it locked, the last of which is last_job. taken and weight: how many of them it took, and their weight.
-- is_drained: the lane has no more jobs for this turn. is_whole: no job was parked or left because of its group. is_cut:
-- jobs were left that another claim may take. is_blocked: not even the first job fits. has_suspects: some of those that
-- fit are suspects. left_job: the first heavy job that is left to a node with less load than its_load, if that is given;
-- others behind it are taken.
--
-- One function per lane, which calls those of its lane. Only next_job() calls it, whose settings pin the plan
-- and the search path.
create or replace function txqueue.take_step_0(
    head txqueue.ready_head, turn txqueue.claim_turn, bounds txqueue.step_bounds, work_types text[], step integer, most_deaths integer,
    room integer, part integer, largest integer, capacity integer, chunk_jobs integer, workers integer, is_idle boolean, most_parked integer,
    its_node integer, its_incarnation integer, its_load double precision) returns txqueue.claim_step
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    octets_limit constant bigint := 4194304;
    its          txqueue.claim_step;
    chunk        txqueue.claimed_chunk;
    -- Where the head may be passed over, no job behind it overtakes the head of another lane.
    is_exact     constant boolean := bounds.heaviest < 2147483647 or most_deaths < 32767;
    tids         tid[] := txqueue.lock_ready_0(
                     head, turn, work_types, bounds.jobs, case when is_exact then 0 else step end, most_deaths, bounds.heaviest);
    jobs         integer := cardinality(tids);
    size         integer;
    weight       bigint;
    heaviest     integer;
    octets       bigint;
    grouped      integer;
    suspects     tid[];
    gravest      tid[];
    others       tid[];
    first        tid;
    admitted     record;
    parts        record;
begin
    select sum(weight), max(weight), sum(txqueue.payload_octets(payload) + coalesce(octet_length(options::text), 0)), count("group"),
           array_agg(ctid) filter (where deaths > 1), array_agg(ctid) filter (where deaths > 2),
           max(rank), max(job_id) filter (where ctid = tids[jobs])
      into weight, heaviest, octets, grouped, suspects, gravest, its.last_rank, its.last_job
      from txqueue.job_ready_0 where ctid = any (tids);
    its.found := jobs;
    its.taken := 0;
    its.weight := 0;
    its.parked := 0;
    its.is_drained := case when is_exact then jobs < bounds.jobs and head.until_rank is null
                           else jobs < least(step, bounds.jobs) end;
    its.is_whole := true;
    its.is_cut := false;

    if grouped > 0 then
        admitted := txqueue.admit_groups_0(tids, most_parked);
        tids := admitted.taken;
        its.parked := admitted.parked;
        its.is_whole := cardinality(tids) is not distinct from jobs;
        its.is_drained := case when its.is_whole then its.is_drained else its.parked = 0 end;
    end if;
    if its_load is not null and heaviest > 1 and heaviest * 10 >= capacity then
        select min(job_id) filter (where is_left), array_agg(tid order by rank, job_id) filter (where not is_left)
          into its.left_job, others
          from (select ctid as tid, rank, job_id, weight > 1 and weight * 10 >= capacity and txqueue.has_lighter_node(
                           its_incarnation, its_load, head.queue, work_type, least(weight, capacity)) as is_left
                  from txqueue.job_ready_0 where ctid = any (tids) offset 0) as mine;
        if its.left_job is not null then
            tids := others;
            its.is_cut := true;
            -- The next claim looks at what is behind these.
            its.is_drained := true;
        end if;
    end if;
    if cardinality(tids) > 0
       and (weight > least(bounds.room, part) or heaviest > largest or octets > octets_limit) then
        its.is_cut := true;
        first := tids[1];
        tids := txqueue.fit_capacity_0(tids, bounds.room, part, largest, capacity, octets_limit);
        if tids is null and is_idle then
            -- A job heavier than the rest of a node beside the reserve: an idle node takes it.
            tids := txqueue.fit_capacity_0(array[first], room, part, largest, capacity, octets_limit);
        end if;
        its.is_blocked := tids is null;
    end if;
    if suspects && tids then
        its.has_suspects := true;
        parts := txqueue.separate_suspects(tids, suspects, gravest, workers);
        suspects := parts.alone;
        tids := parts.rest;
        its.is_cut := its.is_cut or parts.is_cut;
    else
        suspects := null;
    end if;

    size := least(chunk_jobs, greatest(1, (cardinality(tids) + workers - 1) / workers));
    while suspects is not null or cardinality(tids) > 0 loop
        chunk := txqueue.assign_0(head.lane, coalesce(suspects, tids[1 : size]), its_node, its_incarnation, bounds.is_counted, suspects is not null);
        its.chunks := its.chunks || chunk;
        its.taken := its.taken + chunk.jobs;
        its.weight := its.weight + chunk.weight;
        tids := case when chunk.alone then tids else tids[size + 1 :] end;
        suspects := null;
    end loop;
    return its;
end $$;
