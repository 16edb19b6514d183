-- Has jobs that failed in one way run again, but not before a moment: failed ones start anew then, and those
-- that wait for another attempt wait until then. At most so many at once. Returns how many, and the moment:
-- pass it to go on.
create or replace function @schema@.postpone_failures(
    its_fingerprint text, who text, delay double precision, moment timestamptz default null, at_most integer default 1000,
    out postponed integer, out until timestamptz)
language plpgsql volatile security definer
set search_path = @schema@, pg_temp
set enable_seqscan = off
as $$
declare
    this    job;
    again   job;
    ids     bigint[] := '{}';
begin
    if delay is null or not delay between 0 and 1e9 then
        perform refuse(format('a delay of %s s is not within 0 to 1e9', coalesce(delay::text, 'null')), 'give a positive number');
    end if;
    until := coalesce(moment, clock_timestamp() + make_interval(secs => delay));
    for this in
        delete from job
         where job_id = any (array(
                   select job_id from job
                    where fingerprint = its_fingerprint
                      and (state = 'failed' or state = 'waiting' and waiting_for = 'time' and not_before < until)
                    limit at_most))
           and (state = 'failed' or state = 'waiting' and waiting_for = 'time')
        returning *
    loop
        again := this;
        if this.state = 'failed' then
            again := renewed(this);
            again.fingerprint := this.fingerprint;
            again.failed_at := this.failed_at;
        end if;
        again.not_before := until;
        again.rank := rank_of(until, again.not_after, again.priority, (select aging from setting));
        again.state := 'waiting';
        again.waiting_for := coalesce(nullif(again.waiting_for, 'group'), 'time');
        insert into job values (again.*);
        ids := ids || again.job_id;
    end loop;
    if ids = '{}' and moment is null then
        perform refuse(format('no job has failed like %s', left(its_fingerprint, 100)), 'txqueue failures lists the kinds');
    end if;
    postponed := cardinality(ids);
    if postponed > 0 then
        perform note_action(who, 'postpone', subject_of(ids), jsonb_build_object(
            'jobs', ids, 'fingerprint', its_fingerprint, 'until', until));
    end if;
end $$;
