-- Enqueues a job with a unique key unless another unended job of its work type holds the key. In that case
-- the mode decides:
-- keep     nothing: the other stands for both
--   reject   an error
-- replace  a pending job gets the new one's data and start time
--   again    a pending one takes all that the new one has, but keeps its place
-- If the other runs, or may be taken by its group at any moment, replace and again have the new one follow it, and that is
-- the pending one from then on. Returns the number of the pending one; with keep that of the other.
--
-- A follow-up of the running job that ends with this transaction, which txqueue.ending_job names, follows it with any
-- mode: the job holds its key only until the commit.
--
-- With replace and again the key is locked until the end of the transaction, and other enqueues with these
-- modes wait, as for any unique index. Completions do not wait: see pass_on_unique_keys().
create or replace function txqueue.enqueue_unique(this job, its_key text, mode text) returns bigint
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    held  unique_job;
    other job;
    ending constant text := current_setting('txqueue.ending_job', true);
begin
    perform check_unique(its_key, mode);
    this.options := coalesce(this.options, '{}') || jsonb_build_object('unique', its_key);
    this.followed := 1;
    loop
        insert into unique_job (work_type, key, job_id) values (this.work_type, its_key, this.job_id) on conflict do nothing;
        if found then
            insert into job values (this.*);
            return this.job_id;
        end if;
        if mode in ('keep', 'reject') then
            select * into held from unique_job where work_type = this.work_type and key = its_key;
            select * into other from job where job_id = held.job_id and state in ('waiting', 'ready', 'assigned');
            if found and other.state = 'assigned' and held.next_id is null and held.job_id::text = ending then
                mode := 'again';
            elsif found and mode = 'reject' then
                perform refuse_duplicate(this.work_type, held.job_id);
            elsif found then
                return coalesce(held.next_id, held.job_id);
            end if;
        end if;
        select * into held from unique_job where work_type = this.work_type and key = its_key for update;
        continue when not found;
        select * into other from job
         where job_id = coalesce(held.next_id, held.job_id) and state in ('waiting', 'ready', 'assigned');
        if not found then
            if current_setting('transaction_isolation') <> 'read committed' then
                -- The job may also have moved to where this transaction cannot see it.
                raise exception using errcode = 'serialization_failure',
                    message = format('this transaction is too old to see the state of job %s', coalesce(held.next_id, held.job_id)),
                    hint = 'try it again, or enqueue in a read committed one';
            end if;
            -- The job has ended, but its completion could not get the key.
            update unique_job set job_id = case when held.next_id is null then this.job_id else held.job_id end, next_id = null
             where work_type = this.work_type and key = its_key;
            continue when held.next_id is not null;
            insert into job values (this.*);
            return this.job_id;
        end if;
        continue when mode in ('keep', 'reject');
        if not can_change_payload(other) then
            this.state := 'waiting';
            this.waiting_for := 'unique';
            insert into job values (this.*);
            update unique_job set next_id = this.job_id where work_type = this.work_type and key = its_key;
            return this.job_id;
        end if;
        perform set_config('queue_rows.are_moved', 'on', true);
        delete from job where job_id = other.job_id and state in ('waiting', 'ready') returning * into other;
        if found then
            other := replace_pending(other, this, mode);
            insert into job values (other.*);
            return other.job_id;
        end if;
    end loop;
end $$;
