-- What keeps a failed or cancelled job from being opened again, by the rules of reopen(): the first of its parents
-- that have ended and are not done, whether it has too many parents for their numbers to be stored, and the job
-- that holds its unique key. Null for a job in another state.
create or replace function txqueue.reopen_obstacles(this job) returns jsonb
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_custom_plan
as $$
declare
    parents bigint[] := '{}';
begin
    if this.state not in ('failed', 'cancelled') or jsonb_typeof(this.options) is distinct from 'object' then
        return null;
    end if;
    if jsonb_typeof(this.options -> 'after') = 'array' and this.options -> 'after_any_end' is distinct from 'true' then
        parents := array(select value::bigint from jsonb_array_elements_text(this.options -> 'after') as value where value ~ '^[0-9]{1,18}$');
    end if;
    return jsonb_build_object(
        'parents', coalesce((select jsonb_agg(parent) from (
            select parent.job_id, parent.state from job as parent
             where parent.job_id = any (parents) and parent.state in ('failed', 'cancelled')
             order by parent.job_id limit 5) as parent), '[]'),
        'has_unnamed_parents', coalesce(jsonb_typeof(this.options -> 'after'), 'null') <> 'array'
            and this.options ? 'after' and not this.options ? 'parents',
        'holder', (select held.job_id from unique_job as held
             where held.work_type = this.work_type and held.key = this.options ->> 'unique' and held.job_id <> this.job_id));
end $$;
