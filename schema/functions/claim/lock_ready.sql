-- Locks the first ready jobs of one turn in one lane and queue, in rank order from the head to the head of
-- another lane. If those are fewer than a step, it locks up to a step beyond, so that lanes that interleave
-- finely do not cost a step for each job. Suspects are jobs that were running when two processes died;
-- most_deaths excludes them. most_weight excludes jobs that this node cannot start, however many others end.
--
-- One statement for each kind of turn: each has its own partial index, and PostgreSQL does not lock rows of a
-- union. One function per lane, so that its plans are kept; the plans are pinned, because the planner's own
-- choice ran six times slower.
create or replace function txqueue.lock_ready_0(
    head txqueue.ready_head, turn txqueue.claim_turn, work_types text[], at_most integer, step integer, most_deaths integer,
    most_weight integer)
returns tid[]
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    until_rank timestamptz := coalesce(head.until_rank, 'infinity');
    until_job  bigint := coalesce(head.until_job, 9223372036854775807);
    locked     tid[];
begin
    loop
        if turn.is_reserve then
            locked := array(select ctid from job_ready_0
                where queue = head.queue and priority >= 7 and work_type = any (work_types) and deaths <= most_deaths
                  and weight <= most_weight
                  and (options -> 'unread' ?| work_types) is not true
                  and (tenant is null or txqueue.is_unlimited_tenant(tenant))
                  and (rank, job_id) >= (head.rank, head.job_id) and (rank, job_id) <= (until_rank, until_job)
                order by rank, job_id limit at_most for update skip locked);
        elsif turn.tenant is not null then
            locked := array(select ctid from job_ready_0
                where queue = head.queue and tenant = turn.tenant and work_type = any (work_types) and deaths <= most_deaths
                  and weight <= most_weight
                  and (options -> 'unread' ?| work_types) is not true
                  and (rank, job_id) >= (head.rank, head.job_id) and (rank, job_id) <= (until_rank, until_job)
                order by rank, job_id limit at_most for update skip locked);
        else
            locked := array(select ctid from job_ready_0
                where queue = head.queue and tenant is null and work_type = any (work_types) and deaths <= most_deaths
                  and weight <= most_weight
                  and (options -> 'unread' ?| work_types) is not true
                  and (rank, job_id) >= (head.rank, head.job_id) and (rank, job_id) <= (until_rank, until_job)
                order by rank, job_id limit at_most for update skip locked);
        end if;
        exit when until_rank = 'infinity' or cardinality(locked) >= least(step, at_most);
        at_most := least(step, at_most);
        until_rank := 'infinity';
        until_job := 9223372036854775807;
    end loop;
    return locked;
end $$;
