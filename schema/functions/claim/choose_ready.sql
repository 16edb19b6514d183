-- Chooses the jobs for one step of a claim from one lane and queue, locked and in rank order: parks jobs of busy
-- groups, leaves those that do not fit, and separates suspects. Ordinary jobs are only locked and summed up.
--
-- tids are the jobs to take. alone are suspects to take before them, for a process without other jobs.
-- is_drained: the lane has no more jobs for this turn. is_whole: no job was parked or left because of its
-- group. is_cut: jobs were left that another claim may take. is_blocked: not even the first job fits. has_suspects: some
-- of those that fit are suspects. left_job:
-- the first heavy job that is left to a node with less load than its_load, if that is given; others behind it are taken.
--
-- One function per lane, which calls those of its lane. Only next_job() calls it, whose settings pin the plan
-- and the search path.
create or replace function txqueue.choose_ready_0(
    head txqueue.ready_head, turn txqueue.claim_turn, work_types text[], at_most integer, step integer, most_deaths integer, most_weight integer,
    room integer, open_room integer, part integer, largest integer, capacity integer, workers integer, is_idle boolean, most_parked integer,
    its_incarnation integer, its_load double precision,
    out jobs integer, out parked integer, out tids tid[], out alone tid[], out is_drained boolean, out is_whole boolean, out is_cut boolean,
    out is_blocked boolean, out has_suspects boolean, out last_rank timestamptz, out last_job bigint, out left_job bigint)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    octets_limit constant bigint := 4194304;
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
    tids := txqueue.lock_ready_0(head, turn, work_types, at_most, step, most_deaths, most_weight);
    jobs := cardinality(tids);
    select sum(weight), max(weight), sum(txqueue.payload_octets(payload) + coalesce(octet_length(options::text), 0)), count("group"),
           array_agg(ctid) filter (where deaths > 1), array_agg(ctid) filter (where deaths > 2),
           max(rank), max(job_id) filter (where ctid = tids[jobs])
      into weight, heaviest, octets, grouped, suspects, gravest, last_rank, last_job
      from txqueue.job_ready_0 where ctid = any (tids);
    is_drained := jobs < least(step, at_most);
    is_whole := true;
    parked := 0;
    is_cut := false;
    is_blocked := false;
    has_suspects := false;
    if grouped > 0 then
        admitted := txqueue.admit_groups_0(tids, most_parked);
        tids := admitted.taken;
        parked := admitted.parked;
        is_whole := cardinality(tids) is not distinct from jobs;
        is_drained := case when is_whole then is_drained else parked = 0 end;
    end if;
    if its_load is not null and heaviest > 1 and heaviest * 10 >= capacity then
        select min(job_id) filter (where is_left), array_agg(tid order by rank, job_id) filter (where not is_left)
          into left_job, others
          from (select ctid as tid, rank, job_id, weight > 1 and weight * 10 >= capacity and txqueue.has_lighter_node(
                           its_incarnation, its_load, head.queue, work_type, least(weight, capacity)) as is_left
                  from txqueue.job_ready_0 where ctid = any (tids) offset 0) as mine;
        if left_job is not null then
            tids := others;
            is_cut := true;
            -- The next claim looks at what is behind these.
            is_drained := true;
        end if;
    end if;
    if cardinality(tids) > 0
       and (weight > least(open_room, part) or heaviest > largest or octets > octets_limit) then
        is_cut := true;
        first := tids[1];
        tids := txqueue.fit_capacity_0(tids, open_room, part, largest, capacity, octets_limit);
        if tids is null and is_idle then
            -- A job heavier than the rest of a node beside the reserve: an idle node takes it.
            tids := txqueue.fit_capacity_0(array[first], room, part, largest, capacity, octets_limit);
        end if;
        is_blocked := tids is null;
    end if;
    if suspects && tids then
        has_suspects := true;
        parts := txqueue.separate_suspects(tids, suspects, gravest, workers);
        alone := parts.alone;
        tids := parts.rest;
        is_cut := is_cut or parts.is_cut;
    end if;
end $$;
