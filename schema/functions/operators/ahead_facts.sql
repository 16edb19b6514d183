-- How many ready jobs the nodes with these queues and types could claim before a job, their weight, and how many of
-- them are suspects.
create or replace function txqueue.ahead_facts(this job, queues text[], types text[]) returns jsonb
language plpgsql volatile
set search_path = txqueue, pg_temp
set jit = off
set enable_seqscan = off
as $$
declare
    most constant integer := 10000;
begin
    if queues is null then
        return jsonb_build_object('jobs', 0, 'weight', 0, 'suspects', 0);
    end if;
    return (select jsonb_build_object('jobs', count(*), 'weight', coalesce(sum(first.weight), 0),
                         'suspects', count(*) filter (where first.deaths > 1))
        from (select weight, deaths
                from unnest(queues) as wanted (queue), lateral (
                     select * from job_ready
                      where job_ready.queue = wanted.queue and job_ready.tenant is null
                        and (this.tenant is not null or (rank, job_id) < (this.rank, this.job_id))
                     union all
                     select * from job_ready
                      where job_ready.queue = wanted.queue and job_ready.tenant is not null
                        and (job_ready.tenant is distinct from this.tenant or (rank, job_id) < (this.rank, this.job_id))) as other
               where work_type = any (types) and (readable_json(options) -> 'unread' ?| types) is not true
                 and not exists (select from control where is_paused
                         and (kind, key) in (('queue', other.queue), ('tenant', other.tenant), ('group', other."group")))
               limit most) as first);
end $$;
