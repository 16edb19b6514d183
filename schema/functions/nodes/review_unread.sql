-- Looks at up to 1,000 jobs that no worker could read so far: those not looked at for ten seconds, or since a node
-- has registered. Makes them ready if a live node may be able to read them, has them wait if there is none, and
-- fails those whose time is over. Jobs that other sessions have locked are seen to later.
create or replace function txqueue.review_unread() returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    each     unread_job;
    this     job;
    is_read  boolean;
    readied  integer := 0;
    failed   bigint[] := '{}';
    ended    bigint[] := '{}';
    looked   constant timestamptz := clock_timestamp();
begin
    for each in
        select * from unread_job
         where checked_at < greatest(looked - interval '10 seconds', (select max(started_at) from node_info where state = 'alive'))
         order by checked_at limit 1000 for update skip locked
    loop
        update unread_job set checked_at = looked where job_id = each.job_id;
        select * into this from job
         where job_id = each.job_id and (state = 'ready' or state = 'waiting' and waiting_for = 'version') for update skip locked;
        if not found then
            delete from unread_job where job_id = each.job_id and not is_live_job(job_id);
            continue;
        end if;
        if has_large_values(this) and find_damage(this.options, this.payload, null, null, this.error) is not null then
            perform set_config('queue_rows.are_moved', 'on', true);
            delete from job where job_id = this.job_id and state in ('ready', 'waiting');
            perform fail_if_damaged(this);
            continue;
        end if;
        is_read := has_reader(this.work_type, this.queue, this.options -> 'unread');
        continue when case when is_read then this.state = 'ready' else this.state = 'waiting' and each.until > looked end;
        perform set_config('queue_rows.are_moved', 'on', true);
        delete from job where job_id = this.job_id and state in ('ready', 'waiting');
        if not is_read and each.until <= looked then
            this := fail_unread(this);
            ended := ended || this.job_id;
            failed := failed || case when this.followed is not null then this.job_id end;
        else
            this := return_unread(this, null);
            readied := readied + is_read::integer;
        end if;
        insert into job values (this.*);
    end loop;
    if readied > 0 then
        perform wake_masters(readied);
    end if;
    failed := array_remove(failed, null);
    if failed <> '{}' then
        perform propagate_ends(failed, 'failed');
    end if;
    if ended <> '{}' and has_waiting_clients() then
        perform notify_ended_jobs(array_to_string(ended, ','));
    end if;
end $$;
