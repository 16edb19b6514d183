-- The views, functions and grants of the schema txqueue, version 38, to be read.
-- Generated from a migrated database by: python -m tests.db.snapshot

-- Views ---------------------------------------------------------------------------------------------------------------

-- Failed jobs, and jobs that wait for a retry, by the kind of their last error.
view failures (fingerprint text, work_type text, failed bigint, waiting bigint, first_seen timestamptz,
    last_seen timestamptz, example bigint, error text, is_more boolean);

-- The estimated number of jobs in history.
view history_size (state text, jobs bigint);

-- The numbers of jobs that are not history.
view live_jobs (queue text, work_type text, state job_state, waiting_for text, jobs bigint, oldest timestamptz);

-- What each tenant has that is not history yet.
view live_tenants (tenant text, waiting bigint, ready bigint, assigned bigint, failed bigint, oldest_ready timestamptz,
    share double precision, concurrency integer, is_paused boolean);

-- The nodes and their current status.
view node_status (node_id integer, name text, hostname text, pid integer, port integer, incarnation integer,
    started_at timestamptz, heartbeat_at timestamptz, state text, load double precision, capacity integer, jobs bigint,
    queues text[], work_types text[], lease double precision, version text, address text, report jsonb,
    lacking_right text, right_remedy text);

-- What keeps vacuum from removing dead rows.
view old_snapshots (kind text, name text, pid integer, since timestamptz);

-- Recently done jobs, by queue.
view recent_done (queue text, jobs bigint, since timestamptz);

-- The progress of each workset.
view workset_status (name text, work_type text, source text, size smallint, batch integer, bound bigint,
    is_started boolean, parts bigint, running bigint, waiting_until timestamptz, done bigint, failed bigint,
    jobs bigint, remaining bigint, is_exact boolean);

-- Functions -----------------------------------------------------------------------------------------------------------
-- Those that others than the owner may execute, by file of schema/functions; behind each the roles, without their
-- prefix txqueue_. schema/README.md says what each function does.

-- acts
cancel(ids bigint[], who text) returns (cancelled bigint[], requested jsonb, refused bigint[]);  -- worker
enqueue_by_operator(its_work_type text, its_payload jsonb, who text) returns bigint;  -- worker
repeat(its_job_id bigint, who text, its_payload jsonb = null) returns bigint;  -- worker
repeat_archived(its_job_id bigint, columns jsonb, its_payload jsonb, its_options jsonb, who text)
    returns bigint;  -- worker
restart(ids bigint[], who text, is_counted boolean = false) returns (restarted jsonb, requested jsonb,
    refused bigint[]);  -- worker
retry(ids bigint[], who text) returns (retried bigint[], refused bigint[]);  -- worker
retry_from(its_job_id bigint, its_step text, who text) returns integer;  -- worker
row_locker(its_xmax xid, leaf oid) returns integer;  -- read, worker

-- changes
delete_jobs(ids bigint[], who text) returns (deleted bigint[], refused bigint[]);  -- worker
edit(ids bigint[], its_payload jsonb, who text) returns (changed bigint[], refused bigint[]);  -- worker
move(ids bigint[], its_queue text, who text) returns (changed bigint[], refused bigint[]);  -- worker
reschedule(ids bigint[], its_moment timestamptz, who text) returns (changed bigint[], refused bigint[]);  -- worker
set_priority(ids bigint[], its_priority integer, who text) returns (changed bigint[], refused bigint[]);  -- worker
undo(its_act bigint, who text) returns (undone bigint[], kept jsonb);  -- worker

-- checks
advance_sequences(is_thorough boolean = true) returns text[];  -- worker
find_damage(options jsonb = null, payload jsonb = null, result jsonb = null, progress jsonb = null, error text = null)
    returns text;  -- read, worker
is_input(given text, its_type regtype) returns boolean;  -- worker
lagging_sequences(is_thorough boolean = true) returns table(name text, present bigint, needed bigint);  -- read, worker
readable_json(value jsonb) returns jsonb;  -- read, worker
readable_text(value text) returns text;  -- read, worker

-- claim
next_job(its_node integer, its_incarnation integer, queues text[], work_types text[], free_weight integer,
    largest integer, capacity integer, chunk_jobs integer, workers integer, since timestamptz = null,
    take_suspects boolean = true, from_rank timestamptz = '-infinity', after_tenant text = '', from_job bigint = 0,
    its_load double precision = null, ahead integer = 0, turn_length integer = 100) returns table(lane smallint,
    assignment bigint, jobs integer, weight bigint, chunk text, alone boolean, due_in double precision,
    seen_at timestamptz, reached text, last_tenant text, reached_job bigint, searched double precision, passed text,
    passed_job bigint, left_job bigint);  -- worker
set_aside(its_incarnation integer, queues text[]) returns bigint[];  -- worker

-- complete
complete(its_incarnation integer, lanes smallint[], assignments bigint[], ids text[], results text[] = null)
    returns (total integer, freed boolean, freed_rank text, freed_job bigint);  -- worker
complete_one(its_incarnation integer, its_assignment bigint, its_job_id bigint, its_result jsonb,
    its_progress jsonb = null, its_lane integer = null, its_cost double precision = null) returns void;  -- worker
held_jobs(its_incarnation integer, ids bigint[]) returns bigint[];  -- worker
release(its_incarnation integer, assignments bigint[], died boolean, all_but boolean = false, ids bigint[] = null,
    spare_handed boolean = false, at_most integer = null) returns integer;  -- worker

-- dispatch
assignments_of(its_incarnation integer, older_than double precision) returns table(assignment bigint,
    jobs bigint);  -- worker
direct_jobs(its_incarnation integer, its_assignment bigint = null, known bigint[] = '{}') returns table(lane smallint,
    assignment bigint, jobs integer, weight bigint, chunk text);  -- worker
enqueue_assigned(its_node integer, its_incarnation integer, work_type text, payload jsonb, queue text = null,
    priority integer = null, weight integer = null, not_before timestamptz = null, not_after timestamptz = null,
    "group" text = null, options jsonb = null, tenant text = null) returns (job_id bigint, assignment bigint,
    lane smallint, its_weight integer);  -- enqueue, worker
grant_credit(its_incarnation integer, jobs integer, unused bigint = null) returns bigint;  -- worker
jobs_of(its_incarnation integer, assignments bigint[]) returns table(assignment bigint, job_id bigint);  -- worker
listen_to_run(its_incarnation integer) returns text;  -- worker
pass_on(its_incarnation integer, assignments bigint[], ids bigint[], to_incarnation integer, parts integer = 1)
    returns table(assignment bigint, jobs integer, weight bigint, ids_passed bigint[]);  -- worker
probe_run(its_incarnation integer) returns text;  -- worker
reserve_run(its_name text) returns (incarnation integer, former integer);  -- worker
silent_jobs() returns bigint[];  -- read, worker

-- enqueue
enqueue(work_type text, payload jsonb) returns bigint;  -- enqueue, worker
enqueue(work_type character varying, payload jsonb, queue text = null, priority integer = null, weight integer = null,
    not_before timestamptz = null, not_after timestamptz = null, "group" text = null, options jsonb = null,
    tenant text = null, "unique" text = null, unique_mode text = null, after bigint[] = null,
    after_any_end boolean = null) returns bigint;  -- enqueue, worker
enqueue_checked(jobs jsonb) returns bigint[];  -- enqueue, worker
enqueue_many(jobs jsonb) returns bigint[];  -- enqueue, worker
enqueue_many(work_type text, payloads jsonb[], arguments jsonb = null) returns bigint[];  -- enqueue, worker

-- enqueue_checks
is_read_in_clear(its_type text) returns boolean;  -- read, worker

-- explain
demand(queue text) returns bigint;  -- enqueue, read, worker
explain_each(ids bigint[]) returns table(job_id bigint, facts jsonb);  -- read, worker
explain_facts(its_job_id bigint) returns jsonb;  -- read, worker
updated_at(its job) returns timestamptz;  -- read, worker

-- failures
discard_failures(its_fingerprint text, who text, before timestamptz = null, at_most integer = 1000)
    returns (discarded integer, until timestamptz);  -- worker
failure_kinds(most_kinds integer, most_jobs integer) returns table(fingerprint text, work_type text, failed bigint,
    waiting bigint, first_seen timestamptz, last_seen timestamptz, example bigint, error text,
    is_more boolean);  -- read, worker
postpone_failures(its_fingerprint text, who text, delay double precision, moment timestamptz = null,
    at_most integer = 1000) returns (postponed integer, until timestamptz);  -- worker
retry_failures(its_fingerprint text, who text, before timestamptz = null, at_most integer = 1000)
    returns (retried integer, until timestamptz);  -- worker

-- guard
guard_versions(its_incarnation integer, applications text[], types text[], failures integer, share double precision)
    returns table(work_type text, application text, error text, failed bigint, runs bigint);  -- worker
release_type(its_work_type text, who text) returns boolean;  -- worker
return_held(at_most integer = 1000) returns integer;  -- worker

-- history
begin_archive(its_leaf text) returns integer;  -- worker
drop_archived(its_leaf text) returns boolean;  -- worker
end_archive(its_leaf text, its_attempt integer, its_location text, its_jobs bigint, its_checksum text)
    returns boolean;  -- worker
ensure_history() returns text[];  -- worker
find_actions(its_id bigint) returns setof action;  -- read, worker
find_archived(its_id bigint) returns table(state job_state, day date, location text);  -- read, worker
find_attempts(its_id bigint) returns setof failed_attempt;  -- read, worker
find_job(its_id bigint) returns setof job;  -- read, worker
history_due(before date = null) returns table(leaf text, state text, day date);  -- worker
hold_archiving(its_holder uuid, seconds double precision) returns boolean;  -- worker

-- limits
backlog(queue text) returns bigint;  -- enqueue, read, worker
pause(its_kind text, its_key text, who text) returns boolean;  -- worker
refresh_backlog_flags() returns void;  -- worker
resume(its_kind text, its_key text, who text) returns boolean;  -- worker
set_limit(its_kind text, its_key text, its_concurrency integer, its_rate double precision, its_burst integer,
    its_share double precision, its_reserve double precision, who text, cleared text[] = '{}',
    its_backlog bigint = null) returns jsonb;  -- worker

-- minutes
chart(its_span double precision, its_step double precision, its_queue text = null, its_work_type text = null)
    returns table(at timestamptz, seconds double precision, enqueued double precision, done double precision,
    failed double precision, wait_p50 double precision, wait_p95 double precision, run_p50 double precision,
    run_p95 double precision, waiting double precision, ready double precision,
    assigned double precision);  -- read, worker
measure_minute(bounds double precision[]) returns table(queue text, work_type text, counts bigint[],
    total double precision);  -- worker
note_minute() returns boolean;  -- worker
stats(since timestamptz, until timestamptz = now()) returns table(hour timestamptz, work_type text, done bigint,
    failed bigint, cancelled bigint, busy double precision, mean double precision, longest double precision,
    waited double precision);  -- read, worker

-- nodes
declare_dead(its_incarnation integer, ended integer[]) returns integer;  -- worker
drain_node(its_name text, who text) returns boolean;  -- worker
heartbeat(its_incarnation integer, its_load double precision, its_report jsonb = '{}') returns (owned boolean,
    its_state text, peers jsonb, cancels jsonb, neighbours jsonb, next_end double precision, place integer,
    places integer, rescued integer, nodes integer, beats bigint, server text, restarts jsonb, is_idle boolean,
    work_in double precision, schedule_in double precision);  -- worker
identity() returns uuid;  -- enqueue, read, worker
leave(its_incarnation integer, its_state text) returns integer;  -- worker
publish(work_types jsonb, its_start timestamptz = null) returns integer;  -- worker
register_node(its_name text, its_hostname text, its_pid integer, its_port integer, its_lease double precision,
    its_capacity integer, its_queues text[], its_work_types jsonb, its_version text, its_address text,
    reserved integer = null, its_former integer = null, former_died boolean = true, its_start timestamptz = null)
    returns (node_id integer, incarnation integer);  -- worker
renew_for_peer(its_incarnation integer, heard integer[]) returns integer[];  -- worker
rescue(its_incarnation integer = null) returns integer;  -- worker
undrain_node(its_name text, who text) returns boolean;  -- worker

-- ready
claim_given(its_node integer, its_incarnation integer, work_types text[], given bigint[], since bigint, is_own boolean,
    moment timestamptz) returns jsonb;  -- worker
claim_ready(its_node integer, its_incarnation integer, queues text[], work_types text[], at_most integer)
    returns (lane smallint, assignment bigint, jobs integer, weight bigint, chunk text, is_ordinary boolean);  -- worker

-- relations
notify_ends(ids text) returns double precision;  -- worker
request_end_notices(seconds integer = 10) returns void;  -- enqueue, worker

-- roles
lacking_right(report jsonb) returns (what text, remedy text);  -- read, worker

-- rotation
rotate(held text[] = '{}', least_bytes bigint = 262144, at_most integer = 2) returns (did text[],
    holders text[]);  -- worker

-- schedules
due_schedules(since timestamptz = null, at_most integer = 500, busy text[] = '{}') returns (due jsonb,
    due_in double precision, seen_at timestamptz);  -- worker
edit_schedule(its_name text, terms jsonb, who text) returns boolean;  -- worker
find_met_conditions(its_table text, its_column text, given text[]) returns text[];  -- worker
pause_schedule(its_name text, who text) returns boolean;  -- worker
publish_schedules(its_work_types text[], schedules jsonb) returns integer;  -- worker
put_schedule(its_name text, terms jsonb, its_job jsonb, condition jsonb, who text, declared boolean = false)
    returns boolean;  -- worker
remove_schedule(its_name text, who text) returns bigint;  -- worker
resume_schedule(its_name text, who text) returns boolean;  -- worker
run_schedule(its_name text, who text) returns bigint;  -- worker
schedule_runs(names text[], at_most integer = 20) returns table(name text, due timestamptz, job_id bigint, outcome text,
    started_at timestamptz, finished_at timestamptz, late double precision, took double precision, attempt smallint,
    error text);  -- read, worker
scheduled_keys(its_job jsonb) returns ("group" text, tenant text);  -- read, worker
start_missed_cooldowns() returns integer;  -- worker
tick(ticks jsonb) returns integer;  -- worker

-- settle
note_late_error(its_incarnation integer, its_assignment bigint, its_job_id bigint, its_error text)
    returns void;  -- worker
note_late_result(its_incarnation integer, its_assignment bigint, its_job_id bigint, its_result jsonb)
    returns boolean;  -- worker
settle(its_incarnation integer, outcomes jsonb) returns (settled bigint[], freed boolean, freed_rank text,
    freed_job bigint);  -- worker
started(its_incarnation integer, assignments bigint[], ids bigint[], seconds double precision[], progress text[] = null)
    returns integer;  -- worker

-- signals
encrypted_type(job_id bigint, name text) returns text;  -- enqueue, worker
send_signal(its_job_id bigint, its_name text, its_value jsonb, its_key text, who text) returns boolean;  -- worker
signal(job_id bigint, name text, value jsonb = null, key text = null) returns boolean;  -- enqueue, worker
signal_keyed(work_type text, "unique" text, name text, value jsonb = null, key text = null)
    returns boolean;  -- enqueue, worker

-- steps
kept_steps(its_job_id bigint) returns jsonb;  -- worker
load_steps(its_job_id bigint) returns (name text, kind text, result text, error text, is_ended boolean,
    seconds double precision, child bigint, child_state text, child_type text, child_result text,
    child_error text);  -- worker
write_step(its_incarnation integer, its_assignment bigint, its_job_id bigint, its_name text, its_result jsonb,
    its_child bigint = null, its_lane integer = null) returns void;  -- worker
write_steps(its_incarnation integer, given jsonb) returns (place integer, value text);  -- worker

-- unique
coalesce_into(its_incarnation integer, its_assignment bigint, its_job_id bigint, at_most integer, later boolean = false)
    returns table(taken_id bigint, taken_type text, taken_payload text);  -- worker

-- worksets
add_parts(its_name text, firsts text[], lasts text[], counts integer[], is_all boolean) returns void;  -- worker
end_part(its_incarnation integer, its_assignment bigint, its_job_id bigint, its_part bigint, failures jsonb = null)
    returns boolean;  -- worker
end_slot(its_incarnation integer, its_assignment bigint, its_job_id bigint, its_name text, is_renewed boolean)
    returns boolean;  -- worker
ensure_workset(spec jsonb) returns integer;  -- worker, worksets
fill_workset(its_name text, items jsonb) returns bigint;  -- worker, worksets
lock_next_cut(its_name text) returns (is_cut boolean, cut_to text);  -- worker
next_part(its_incarnation integer, its_assignment bigint, its_job_id bigint, its_name text, performed bigint = null,
    failures jsonb = null) returns (held boolean, part bigint, first text, last text, keys text[], items integer,
    attempt integer, taken integer, content text, due_in double precision);  -- worker
retry_workset(its_name text) returns bigint;  -- worker, worksets
split_workset_part(its_incarnation integer, its_assignment bigint, its_job_id bigint, its_part bigint, its_keys text[],
    size integer, delay double precision = 0) returns boolean;  -- worker
start_workset(its_name text, its_items bigint = null) returns integer;  -- worker, worksets

-- Grants --------------------------------------------------------------------------------------------------------------
-- role              privilege  on
--
-- txqueue_enqueue   usage      schema txqueue
--                   select     migration
--
-- txqueue_read      usage      schema txqueue
--                   select     all tables and views but node_channel, job_id
--
-- txqueue_worker    usage      schema txqueue
--                   select     all tables and views but node_channel, job_id
--
-- txqueue_worksets  usage      schema txqueue
--                   select     migration
