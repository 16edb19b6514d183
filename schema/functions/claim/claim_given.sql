-- Claims the first due job in rank order among given ones and those above the number since, of the caller's own
-- transaction if is_own, for a caller that runs them one at a time: txqueue.testing. Those that wait for time are due at the given moment, which may be in the
-- future; the clock's time, if that is later. Jobs of a group pass admit_groups(), as in next_job(), with rates by the
-- clock alone. Pauses are obeyed, other limits of queues and tenants are not.
--
-- Returns an object: ahead, the seconds between the clock and the moment; next_at, when the next of these jobs
-- is due, if none is now; and of a claimed job assignment, lane, chunk, and children: the jobs that wait for its end.
create or replace function txqueue.claim_given(
    its_node integer, its_incarnation integer, work_types text[], given bigint[], since bigint, is_own boolean,
    moment timestamptz)
returns jsonb
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    due      constant timestamptz := greatest(moment, clock_timestamp());
    ahead    constant double precision := extract(epoch from due - clock_timestamp());
    this     record;
    admitted tid[];
    claimed  claimed_chunk;
begin
    given := given || array(select job_id from job where state in ('waiting', 'ready') and job_id > since
                               and (enqueued_at = now() or not is_own));
    perform make_ready(array(select ctid from job_waiting where waiting_for = 'time' and not_before <= due
                                and job_id = any (given) for update skip locked));
    perform end_rate_waits(array(select ctid from job_waiting where waiting_for = 'rate' and not_before <= clock_timestamp()
                                    and job_id = any (given) for update skip locked));
    if exists (select from late_end) then
        -- Of children called and of signals sent in this transaction, for example.
        perform propagate_late_ends();
    end if;
    for this in
        select ready.ctid as tid, ready.lane, ready.job_id, ready."group" from job_ready as ready
         where ready.job_id = any (given) and ready.work_type = any (work_types)
           and (ready.options -> 'unread' ?| work_types) is not true
           and not exists (select from control where is_paused and (kind, key) in (('queue', ready.queue), ('tenant', ready.tenant)))
         order by ready.rank, ready.job_id
    loop
        admitted := array(select ctid from job_ready where lane = this.lane and ctid = this.tid for update skip locked);
        continue when admitted = '{}';
        if this."group" is not null then
            case this.lane
                when 0 then admitted := (admit_groups_0(admitted, 1)).taken;
            end case;
            continue when admitted is null;
        end if;
        case this.lane
            when 0 then claimed := assign_0(this.lane, admitted, its_node, its_incarnation, null::smallint, false);
        end case;
        return jsonb_build_object(
            'ahead', ahead, 'assignment', claimed.assignment, 'lane', this.lane, 'chunk', claimed.chunk,
            'children', (select jsonb_agg(child) from job_parent where parent = this.job_id));
    end loop;
    return jsonb_build_object('ahead', ahead, 'next_at', (
        select min(not_before) from job_waiting
         where waiting_for = 'time' and isfinite(not_before) and work_type = any (work_types)
           and job_id = any (given)));
end $$;
