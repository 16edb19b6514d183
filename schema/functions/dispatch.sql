-- Direct dispatch and open credit: what programs call comes first, then its steps and what they use.

-- The assignments of a node that are older than a number of seconds, or of the future, as the clock was set back, and how many jobs of each are still
-- assigned: the node compares them with the jobs that it holds.
create or replace function txqueue.assignments_of(its_incarnation integer, older_than double precision)
returns table (assignment bigint, jobs bigint)
language sql stable security definer
set enable_sort = off
as $$
    select job.assignment, count(*) from job_assigned as job
     where job.incarnation = its_incarnation and job.assigned_at not between clock_timestamp() - make_interval(secs => older_than) and clock_timestamp()
     group by job.assignment
$$;

-- The jobs of an assignment that were handed to a node by message: one row, with a chunk as claims return it.
-- Its lane is that of its first job. Nodes of the alpha, which name no assignment but what they know, get none:
-- their reconciliation returns such jobs.
create or replace function txqueue.direct_jobs(
    its_incarnation integer, its_assignment bigint default null, known bigint[] default '{}')
returns table (lane smallint, assignment bigint, jobs integer, weight bigint, chunk text)
language sql volatile security definer
set enable_seqscan = off
as $$
    select min(job.lane), job.assignment, count(*)::integer, sum(job.weight),
           chunk_of(string_agg(chunk_entry(job.job_id, job.work_type, job.attempt, job.weight, job.payload,
                                           job_terms(job.options, coalesce(job."group", job.counted::text), job.not_after)),
                               ',' order by job.rank, job.job_id))
      from job_assigned as job
     where job.incarnation = its_incarnation and job.assignment = its_assignment and job.handed is not null
     group by job.assignment
$$;

-- Enqueues one job in the caller's transaction as enqueue() does, but already assigned to a node that granted
-- the caller credit: after the commit the caller notifies that node, and no claim is needed. Returns the
-- job's number, assignment, lane and weight; the assignment is null if the job must be claimed, because it
-- needs a decision (group, tenant, a later time, a not_after, a limit or pause of its queue), because it is heavy
-- and another node less loaded, because that run of the node is no longer alive, or does not serve the queue or the type, or because the transaction is one
-- whose jobs must be claimed.
--
-- No row of the node is locked: rescue() finds jobs that are committed after their node has died.
create or replace function txqueue.enqueue_assigned(
    its_node integer, its_incarnation integer,
    work_type text, payload jsonb, queue text default null, priority integer default null,
    weight integer default null, not_before timestamptz default null, not_after timestamptz default null,
    "group" text default null, options jsonb default null, tenant text default null,
    out job_id bigint, out assignment bigint, out lane smallint, out its_weight integer)
language plpgsql volatile security definer
as $$
declare
    facts   record;
    refused text;
begin
    -- Most jobs, as in enqueue(): one statement reads and writes; what follows is for those that it does not take.
    if num_nonnulls(queue, priority, weight, not_before, not_after, "group", options, tenant) = 0
       and not has_limits() and may_assign_at_once() then
        insert into job_assigned (job_id, rank, not_before, enqueued_at, assigned_at, assignment, node_id, incarnation,
                                  weight, priority, lane, state, work_type, queue, handed, payload)
        select nextval('job_id'), compute_rank(now(), null, known.priority, settings.aging), now(), now(), clock_timestamp(),
               next_assignment(), node.node_id, node.incarnation, 1, known.priority, current_lane(), 'assigned',
               known.work_type, known.queue, 1, enqueue_assigned.payload
          from setting as settings, work_type as known, node_info as node
         where known.work_type = enqueue_assigned.work_type and known.weight = 1
           and (known.policy ? 'encrypted') is not true and is_short_object(enqueue_assigned.payload, settings.payload_limit)
           and node.incarnation = its_incarnation and node.node_id = its_node and is_reachable(node, node.lease)
           and serves_type(node, known.queue, known.work_type)
        returning job_assigned.job_id, job_assigned.assignment, job_assigned.lane, 1
             into job_id, assignment, lane, its_weight;
        if found then
            return;
        end if;
    end if;
    if "group" is null and tenant is null and not_after is null and (not_before is null or not_before <= now())
       and may_assign_at_once() then
        select settings.payload_limit, settings.aging, known.policy, known.priority, known.weight,
               coalesce(enqueue_assigned.queue, known.queue) as queue
          into facts
          from setting as settings, work_type as known
         where known.work_type = enqueue_assigned.work_type;
        perform from node_info as node
          where node.incarnation = its_incarnation and node.node_id = its_node and is_reachable(node, node.lease)
            and serves_type(node, facts.queue, enqueue_assigned.work_type)
            and not exists (select from control as held
                             where held.kind = 'queue' and held.key = facts.queue
                               and (held.is_paused or held.concurrency is not null or held.rate is not null
                                    or held.reserve > 0 or held.is_full or held.held_until > clock_timestamp()))
            -- Whether it is heavy, as in next_job().
            and not (coalesce(enqueue_assigned.weight, facts.weight) > 1
                     and coalesce(enqueue_assigned.weight, facts.weight) * 10 * coalesce((node.report ->> 'workers')::integer, 1) >= node.capacity
                     and has_lighter_node(its_incarnation, node.load, facts.queue, enqueue_assigned.work_type,
                                          coalesce(enqueue_assigned.weight, facts.weight)));
        if found then
            job_id := nextval('job_id');
            assignment := next_assignment();
            lane := current_lane();
            its_weight := coalesce(weight, facts.weight);
            not_before := coalesce(not_before, now());
            priority := coalesce(priority, facts.priority);
            refused := check_job(work_type, payload, facts.payload_limit, priority, its_weight, facts.queue, null::text,
                                 null::text, not_before, not_after, options);
            if facts.policy ? 'encrypted' then
                refused := check_encrypted(facts.policy, work_type, payload);
            end if;
            insert into job_assigned (job_id, rank, not_before, not_after, enqueued_at, assigned_at, assignment,
                                      node_id, incarnation, weight, priority, lane, state, work_type, queue, handed,
                                      options, payload)
            values (job_id, compute_rank(not_before, not_after, priority, facts.aging), not_before, not_after, now(),
                    clock_timestamp(), assignment, its_node, its_incarnation, its_weight, priority, lane, 'assigned',
                    work_type, facts.queue, 1, without_keys_option(options), payload);
            return;
        end if;
    end if;
    job_id := enqueue(work_type, payload, queue, priority, weight, not_before, not_after, "group", options, tenant);
end $$;
comment on function txqueue.enqueue_assigned(integer, integer, text, jsonb, text, integer, integer, timestamptz,
    timestamptz, text, jsonb, text) is
    'Enqueue one job in the caller''s transaction, assigned to a node at once where that may be.';

-- Whether jobs of this transaction may be assigned when they are enqueued. A node starts such a job as soon as it
-- is visible. So its commit must be on disk by then: after a crash, numbers that are not would be given again, to
-- jobs that never ran. The commit notifies the node. And the transaction must see limits and pauses as they are now, not as they were when it
-- began.
create or replace function txqueue.may_assign_at_once() returns boolean
language sql stable  -- inlined
as $$ select current_setting('synchronous_commit') <> 'off' and current_setting('transaction_isolation') like 'read %' and txqueue.may_notify() $$;

-- Whether a transaction may commit with a notification. PostgreSQL lets one at a time, and its lock_timeout bounds
-- how long a commit waits for its turn: with a short one, sessions of an application could not commit while others
-- do. Without a notification a job waits for the next poll.
create or replace function txqueue.may_notify() returns boolean
language sql stable  -- inlined
as $$ select current_setting('lock_timeout') = '0' or current_setting('lock_timeout')::interval >= interval '1 second' $$;

-- Grants open credit: so many jobs may be enqueued as assigned to this run of a node, which listens on the
-- channel of its incarnation. 0 withdraws what is left.
--
-- Credit that another node has granted stays while there is some left and that node is alive. Then the credit is
-- returned. If it is still the same when the caller passes it with the next call, that node serves other jobs
-- than those that the caller sees, and the caller's credit takes its place. Of two calls at a time one is lost:
-- then that node's jobs are claimed, and it grants credit again a moment later.
create or replace function txqueue.grant_credit(its_incarnation integer, jobs integer, unused bigint default null)
returns bigint
language plpgsql volatile security definer
as $$
declare
    credit constant bigint := pg_sequence_last_value('open_credit');
begin
    -- A limit that older code sets during an upgrade, or that a replica has without the sequence, is noted here.
    if not has_limits() and exists (select from control) then
        perform setval('has_limits', 1);
    else
        -- The node and the jobs' clients need not wait for the disk: credit that a crash undoes is granted anew.
        perform set_config('synchronous_commit', 'off', true);
    end if;
    if credit_run(credit) is distinct from its_incarnation then
        if jobs <= 0 then
            return null;
        end if;
        if credit is distinct from unused and has_open_credit() and exists (
               select from node_info as node
                where node.incarnation = credit_run(credit) and is_reachable(node, node.lease / 2)) then
            return credit;
        end if;
    end if;
    perform setval('open_credit', (its_incarnation::bigint << 20) + 524288 - greatest(least(jobs, 524288), 0));
    return null;
end $$;

-- The run of the node that has granted a value of the sequence open_credit.
create or replace function txqueue.credit_run(credit bigint) returns integer
language sql immutable  -- inlined
as $$ select (credit >> 20 & 2147483647)::integer $$;

-- Whether a node has granted credit of which there is some left.
create or replace function txqueue.has_open_credit() returns boolean
language sql volatile  -- inlined
as $$ select coalesce(txqueue.credit_left(pg_sequence_last_value('txqueue.open_credit')) > 0, false) $$;

-- How many jobs a value of the sequence open_credit leaves. Above its low 20 bits is the incarnation of the node
-- that has granted the credit; these bits count up to 2^19 as jobs take of it, and on if sessions take of it at
-- the same time: hence the room above.
create or replace function txqueue.credit_left(credit bigint) returns bigint
language sql immutable  -- inlined
as $$ select 524288 - (credit & 1048575) $$;

-- The jobs of some of a node's assignments that are still assigned to it.
create or replace function txqueue.jobs_of(its_incarnation integer, assignments bigint[])
returns table (assignment bigint, job_id bigint)
language sql stable security definer
as $$
    select job.assignment, job.job_id from job_assigned as job
     where job.incarnation = its_incarnation and job.assignment = any (assignments)
$$;

-- Passes jobs of a node's assignments on to another live node that serves their queues and types: all that
-- were not noted as started, or only those named by number. They get new assignments, about which a message
-- notifies the other node, enough per lane that each of its workers gets a part. Suspects stay, as they must
-- run alone, which a claim arranges. Returns one row per assignment. Other jobs still belong to the first
-- node.
create or replace function txqueue.pass_on(
    its_incarnation integer, assignments bigint[], ids bigint[], to_incarnation integer, parts integer default 1)
returns table (assignment bigint, jobs integer, weight bigint, ids_passed bigint[])
language plpgsql volatile security definer
set enable_seqscan = off
set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    target  node_info;
    numbers bigint[];
    moment  constant timestamptz := clock_timestamp();
begin
    select * into target from node_info as node
     where node.incarnation = to_incarnation and is_reachable(node, node.lease);
    if not found or to_incarnation = its_incarnation then
        return;
    end if;
    ids := array(select job_id from job_assigned as job
                  where job.incarnation = its_incarnation and job.assignment = any (assignments)
                    and (ids is null or job.job_id = any (ids)) for update skip locked);
    parts := greatest(1, least(parts, cardinality(ids)));
    numbers := array(select next_assignment() from generate_series(1, 8 * parts));
    return query
    with passed as (
        update job_assigned as job
           set assignment = numbers[1 + job.lane + 8 * (job.job_id % parts)::integer], node_id = target.node_id,
               incarnation = to_incarnation, assigned_at = moment, handed = 1
         where job.incarnation = its_incarnation and job.assignment = any (assignments)
           and job.job_id = any (ids) and job.started_at is null and job.deaths < 2
           and job.queue = any (target.queues) and job.work_type = any (target.work_types)
           and (job.options -> 'unread' ?| target.type_versions) is not true
        returning job.assignment, job.weight, job.job_id
    )
    select passed.assignment, count(*)::integer, sum(passed.weight), array_agg(passed.job_id)
      from passed group by passed.assignment;
end $$;

-- Notifies a run of a node on its own channel, by which the node tests that notifications arrive; returns what
-- listen_to_run() does, which repairs a lost channel.
create or replace function txqueue.probe_run(its_incarnation integer) returns text
language plpgsql volatile security definer
as $$
declare
    its_channel constant text := listen_to_run(its_incarnation);
begin
    if its_channel is not null then
        perform pg_notify(its_channel, 'probe');
    end if;
    return its_channel;
end $$;

-- Listens on the channel on which notifications bring a run of a node its jobs; returns the channel's name, or null if the
-- node has another run by now. Any role may listen to any channel and notify it: so the name cannot be guessed, and no
-- statement that others may see has it. A run keeps its channel when it connects anew, for transactions that are open then.
create or replace function txqueue.listen_to_run(its_incarnation integer) returns text
language plpgsql volatile security definer
as $$
declare
    its_channel text := (select channel from node_channel where incarnation = its_incarnation);
begin
    if its_channel is null then
        delete from node_channel as former
         where not exists (select from node_info as node where node.incarnation = former.incarnation);
        insert into node_channel (incarnation, channel)
        select node.incarnation, gen_random_uuid() from node_info as node where node.incarnation = its_incarnation
        returning channel into its_channel;
    end if;
    if its_channel is not null then
        execute format('listen %I', its_channel);
    end if;
    return its_channel;
end $$;

-- Reserves the incarnation of a run of a node, for register_node(), which also gets the incarnation that has the
-- name now, 0 for none: a late registration, which its caller has given up and repeated, finds another one there
-- and is refused. At random, not from a sequence: a restored database must not give a lost run's number to
-- another run.
create or replace function txqueue.reserve_run(its_name text, out incarnation integer, out former integer)
language plpgsql volatile security definer
as $$
begin
    loop
        incarnation := 1073741824 + (hashtext(gen_random_uuid()::text) & 1073741823);
        exit when not exists (select from node_info as node where node.incarnation = reserve_run.incarnation);
    end loop;
    former := coalesce((select node.incarnation from node_info as node where node.name = its_name), 0);
end $$;

-- The jobs that live nodes have named as running in workers that do not answer: those that block them, and those beside.
create or replace function txqueue.silent_jobs() returns bigint[]
language sql stable security definer
as $$
    select array_agg(each::bigint)
      from node_info, lateral (
           select jsonb_array_elements_text(report -> 'blocking')
            union all select jsonb_array_elements_text(report -> 'maybe_blocking')
            union all select jsonb_object_keys(report -> 'beside')) as named (each)
     where state in ('alive', 'draining') and heartbeat_at > clock_timestamp() - lease
$$;

-- Enqueues a job of weight 1 that needs no decision as assigned to the node that has granted open credit, and notifies
-- it; returns whether it could be. No row of the node is locked: rescue() finds jobs that are committed after their node
-- has died.
create or replace function txqueue.enqueue_credited(
    job_id bigint, work_type text, payload jsonb, queue text, priority integer, not_before timestamptz, aging interval,
    options jsonb) returns boolean
language plpgsql volatile  -- inlined
as $$
declare
    credit          constant bigint := pg_sequence_last_value('txqueue.open_credit');
    lane            constant smallint := txqueue.current_lane();
    its_node        integer;
    its_incarnation integer;
    assignment      bigint;
    taken           bigint;
    chunk           text;
begin
    if (txqueue.credit_left(credit) > 0 and pg_column_size(payload) < 2000 and txqueue.may_assign_at_once()
        and txqueue.try_turn(0)) is not true then
        return false;
    end if;
    select node.node_id, node.incarnation into its_node, its_incarnation from txqueue.node_info as node
     where node.incarnation = txqueue.credit_run(credit) and txqueue.is_reachable(node, node.lease / 2)
       and txqueue.serves_type(node, enqueue_credited.queue, enqueue_credited.work_type);
    if not found then
        return false;
    end if;
    chunk := txqueue.chunk_of(txqueue.chunk_entry(
        job_id, work_type, 0::smallint, 1, payload, coalesce(options::text, 'null')));
    -- No notification holds more.
    if octet_length(chunk) >= 7900 then
        return false;
    end if;
    taken := nextval('txqueue.open_credit');
    -- Other sessions may have taken the last of it, or a node may have granted other credit meanwhile.
    if (txqueue.credit_run(taken) = its_incarnation and txqueue.credit_left(taken) >= 0) is not true then
        return false;
    end if;
    assignment := txqueue.next_assignment();
    insert into txqueue.job_assigned (job_id, rank, not_before, enqueued_at, assigned_at, assignment, node_id, incarnation,
                                      weight, priority, lane, state, work_type, queue, handed, options, payload)
    values (job_id, txqueue.compute_rank(not_before, null, priority, aging), not_before, current_timestamp,
            clock_timestamp(), assignment, its_node, its_incarnation, 1, priority, lane, 'assigned', work_type, queue, 2,
            options, payload);
    perform txqueue.notify_run(its_incarnation, lane, assignment, chunk);
    return true;
end $$;

-- Takes the turn to commit with a notification, until the transaction ends; returns whether it has it. PostgreSQL lets
-- one transaction at a time commit so, from before its commit is on disk until after that. Of many at a time one takes
-- the turn; the others send no notification, and commit together. A transaction that stays open keeps the turn for its
-- slot of time only: several times as long as a commit takes, which masters measure and keep, in ms, above the lowest
-- bit of the sequence asleep. kind: 0 for open credit, 1 to 4 for wake-ups by the digits of their number of jobs.
create or replace function txqueue.try_turn(kind integer) returns boolean
language sql volatile  -- inlined
as $$
    select pg_try_advisory_xact_lock(
        'txqueue.asleep'::regclass::oid::integer,
        ((date_part('epoch', clock_timestamp()) * 1000)::bigint / greatest(pg_sequence_last_value('txqueue.asleep') >> 1, 10)
         % 2000000)::integer * 8 + kind)
$$;

-- Sends a run of a node a job that is assigned to it, by a notification on the node's own channel.
--
-- Its settings hide the channel's name: any session may ask for traces of notifications. Nor may the name be a constant of
-- a plan, which any session may print, too. So no other function that such a session calls reads it.
create or replace function txqueue.notify_run(run integer, lane smallint, assignment bigint, chunk text) returns void
language plpgsql volatile  -- inlined
set client_min_messages = warning
set trace_notify = off
as $$
begin
    perform pg_notify(listening.channel, run || ' ' || lane || ' ' || assignment || ' ' || chunk)
       from txqueue.node_channel as listening where listening.incarnation = run;
end $$;

-- Whether a node that reports this may claim, and has a worker that can start jobs; one that reports no number of
-- workers counts as having one.
create or replace function txqueue.starts_jobs(report jsonb) returns boolean
language sql stable
as $$
    select coalesce((report ->> 'may_claim')::boolean, true)
       and coalesce((report ->> 'workers')::integer, 1)
         > coalesce((select sum(value::integer) from jsonb_each_text(report -> 'closed')), (report ->> 'unable')::integer, 0)
$$;
