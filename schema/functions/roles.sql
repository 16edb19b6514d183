-- Rights of the roles: what programs call comes first, then its steps and what they use.

-- Grants each role the rights it needs, and none to other logins. Creates the roles if the migrating role may
-- create roles; otherwise uses those that an administrator created.
create or replace function txqueue.grant_roles() returns void
language plpgsql volatile
as $$
declare
    enqueuing constant text[] := array['enqueue', 'enqueue_many', 'enqueue_checked', 'enqueue_assigned', 'identity', 'backlog', 'demand', 'request_end_notices', 'signal', 'signal_keyed', 'encrypted_type'];
    worksets  constant text[] := array['ensure_workset', 'fill_workset', 'start_workset', 'retry_workset'];
    working   constant text[] := array['enqueue', 'enqueue_many', 'enqueue_checked', 'enqueue_assigned', 'identity', 'direct_jobs', 'listen_to_run', 'probe_run', 'grant_credit', 'assignments_of', 'jobs_of', 'backlog', 'demand', 'next_job', 'claim_ready', 'claim_given', 'set_aside',
        'complete', 'settle', 'complete_one', 'notify_ends', 'write_steps', 'write_step', 'load_steps', 'kept_steps', 'signal', 'signal_keyed', 'encrypted_type', 'send_signal', 'retry_from', 'note_late_error', 'note_late_result', 'started', 'held_jobs', 'release', 'pass_on', 'rescue', 'renew_for_peer', 'declare_dead', 'reserve_run', 'advance_sequences', 'lagging_sequences', 'register_node', 'publish', 'heartbeat', 'leave',
        'rotate', 'refresh_backlog_flags', 'ensure_history', 'explain_facts', 'explain_each', 'pause', 'resume', 'set_limit', 'cancel', 'restart', 'retry', 'set_priority', 'move', 'reschedule', 'edit', 'delete_jobs', 'undo', 'drain_node',
        'ensure_workset', 'fill_workset', 'start_workset', 'retry_workset', 'request_end_notices', 'next_part', 'end_part', 'split_workset_part', 'lock_next_cut', 'add_parts', 'end_slot',
        'undrain_node', 'history_due', 'hold_archiving', 'begin_archive', 'end_archive', 'drop_archived', 'retry_failures', 'postpone_failures', 'discard_failures',
        'stats', 'find_job', 'find_actions', 'find_attempts', 'find_archived', 'chart', 'note_minute', 'measure_minute', 'due_schedules', 'find_met_conditions', 'is_input', 'tick', 'start_missed_cooldowns', 'put_schedule', 'edit_schedule',
        'coalesce_into', 'enqueue_by_operator', 'repeat', 'repeat_archived', 'publish_schedules', 'pause_schedule', 'resume_schedule', 'remove_schedule', 'run_schedule', 'schedule_runs', 'failure_kinds', 'updated_at',
        'readable_json', 'readable_text', 'find_damage', 'scheduled_keys', 'silent_jobs', 'is_read_in_clear', 'row_locker', 'lacking_right',
        'guard_versions', 'return_held', 'release_type'];
    reading   constant text[] := array['identity', 'explain_facts', 'explain_each', 'backlog', 'demand', 'schedule_runs', 'stats', 'find_job', 'find_actions', 'find_attempts', 'find_archived', 'chart', 'failure_kinds', 'lagging_sequences', 'updated_at', 'readable_json', 'readable_text', 'find_damage', 'scheduled_keys', 'silent_jobs', 'is_read_in_clear', 'row_locker', 'lacking_right'];
    its_role text;
    signature regprocedure;
    grantee   text;
begin
    foreach its_role in array array['txqueue_enqueue', 'txqueue_worksets', 'txqueue_worker', 'txqueue_read'] loop
        if to_regrole(its_role) is null then
            begin
                execute format('create role %I nologin', its_role);
            exception when insufficient_privilege or duplicate_object or unique_violation then
                continue when to_regrole(its_role) is null;
            end;
        end if;
        execute format('grant usage on schema %I to %I', 'txqueue', its_role);
        -- Every client compares the version of the schema with its own.
        execute format('grant select on migration to %I', its_role);
        if its_role not in ('txqueue_enqueue', 'txqueue_worksets') then
            execute format('grant select on all tables in schema %I to %I', 'txqueue', its_role);
            execute format('grant select on job_id to %I', its_role);
        end if;
    end loop;
    -- No one but the owner, whatever default privileges say: who reads the table can send nodes jobs.
    for grantee in
        select distinct coalesce(rolname, 'public') from pg_class, lateral (
            select relacl as acl union all select attacl from pg_attribute where attrelid = pg_class.oid) as rights,
            lateral aclexplode(acl) as each left join pg_roles on pg_roles.oid = each.grantee
         where pg_class.oid = 'node_channel'::regclass and each.grantee <> relowner
    loop
        execute format('revoke all on node_channel from %I cascade', grantee);
    end loop;
    for signature in select oid from pg_proc where pronamespace = 'txqueue'::regnamespace loop
        execute format('revoke all on function %s from public', signature);
    end loop;
    for its_role, signature in
        select purpose, oid from (values ('txqueue_enqueue', enqueuing), ('txqueue_worksets', worksets), ('txqueue_read', reading),
                                         ('txqueue_worker', working)) as allowed (purpose, names), pg_proc
         where pronamespace = 'txqueue'::regnamespace and proname = any (names) and to_regrole(purpose) is not null
    loop
        execute format('grant execute on function %s to %I', signature, its_role);
    end loop;
end $$;

-- What a node lacks to work, by the roles that its heartbeats report, and what restores it if no grant does: null if
-- nothing. It cannot report that itself, as its heartbeats are refused, too. session_user connects, and current_role,
-- which SET ROLE may have changed, calls functions.
create or replace function txqueue.lacking_right(report jsonb, out what text, out remedy text)
language plpgsql stable security definer
as $$
declare
    login  constant text := report ->> 'login';
    called constant text := report ->> 'role';
    lost   text[];
begin
    if login is null or called is null then
        -- A node of an older version.
        return;
    elsif not exists (select from pg_roles where rolname = login) then
        what := format('its role %s does not exist', login);
        remedy := format('make it again, with its password: create role %I login in role txqueue_worker', login);
    elsif not exists (select from pg_roles where rolname = called) then
        what := format('its role %s does not exist', called);
        remedy := format('make it again: create role %I in role txqueue_worker; grant %1$I to %I', called, login);
    elsif not has_schema_privilege(called, 'txqueue', 'usage') then
        what := format('its role %s lacks usage on the schema %s', called, 'txqueue');
    else
        lost := array(
            select proname || '()' from pg_proc
             where pronamespace = 'txqueue'::regnamespace and not has_function_privilege(called, oid, 'execute')
               and proname in ('heartbeat', 'register_node', 'reserve_run', 'claim_ready', 'next_job', 'complete', 'settle', 'started', 'release')
             order by proname);
        what := case when lost <> '{}' then format('its role %s lacks execute on %s', called, array_to_string(lost, ', ')) end;
    end if;
end $$;
