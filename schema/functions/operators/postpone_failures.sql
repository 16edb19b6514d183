-- Retries jobs of one kind of failure, but not before a moment: failed jobs start over then, and jobs that
-- wait for a retry wait until then; see reopen(). At most at_most at once. Returns how many, and the moment to
-- pass in the next call.
create or replace function txqueue.postpone_failures(
    its_fingerprint text, who text, delay double precision, moment timestamptz default null, at_most integer default 1000,
    out postponed integer, out until timestamptz)
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
set enable_seqscan = off
as $$
declare
    ids   bigint[];
    moved bigint[] := '{}';
    last  bigint := '-9223372036854775808';
begin
    if delay is null or not delay between 0 and 1e9 then
        perform refuse(format('a delay of %s s is not within 0 to 1e9', coalesce(delay::text, 'null')), 'give a positive number');
    end if;
    until := coalesce(moment, clock_timestamp() + make_interval(secs => delay));
    loop
        ids := array(
            select job_id from job
             where fingerprint = its_fingerprint and job_id > last
               and (state = 'failed' or state = 'waiting' and waiting_for = 'time' and not_before < until)
             order by job_id limit at_most);
        if ids = '{}' and last < '-9223372036854775807' and moment is null then
            perform refuse(format('no job has failed like %s', left(its_fingerprint, 100)), 'txqueue failures lists the kinds');
        end if;
        exit when ids = '{}';
        moved := reopen(ids, until);
        exit when moved <> '{}';
        last := ids[cardinality(ids)];
    end loop;
    postponed := cardinality(moved);
    if postponed > 0 then
        perform note_action(who, 'postpone', format_job_ids(moved), jsonb_build_object(
            'jobs', moved, 'fingerprint', its_fingerprint, 'until', until));
    end if;
end $$;
