-- Failures by kind: what programs call comes first, then its steps and what they use.

-- Turns failed jobs of one kind of failure before a moment into cancelled ones, at most at_most at once.
-- Returns how many, and the moment to pass in the next call.
create or replace function txqueue.discard_failures(
    its_fingerprint text, who text, before timestamptz default null, at_most integer default 1000,
    out discarded integer, out until timestamptz)
language plpgsql volatile security definer
as $$
begin
    until := coalesce(before, clock_timestamp());
    discarded := act_on_failures('discard', its_fingerprint, who, until, before is null, at_most);
end $$;

-- Retries jobs of one kind of failure that failed before a moment, at most at_most at once; jobs that wait
-- for a retry run now. Returns how many, and the moment to pass in the next call, so that jobs that fail
-- again meanwhile are not retried repeatedly.
create or replace function txqueue.retry_failures(
    its_fingerprint text, who text, before timestamptz default null, at_most integer default 1000,
    out retried integer, out until timestamptz)
language plpgsql volatile security definer
as $$
begin
    until := coalesce(before, clock_timestamp());
    retried := act_on_failures('retry', its_fingerprint, who, until, before is null, at_most);
end $$;

-- Retries jobs of one kind of failure, but not before a moment: failed jobs start over then, and jobs that
-- wait for a retry wait until then; see reopen(). At most at_most at once. Returns how many, and the moment to
-- pass in the next call.
create or replace function txqueue.postpone_failures(
    its_fingerprint text, who text, delay double precision, moment timestamptz default null, at_most integer default 1000,
    out postponed integer, out until timestamptz)
language plpgsql volatile security definer
as $$
begin
    if delay is null or not delay between 0 and 1e9 then
        perform refuse(format('a delay of %s s is not within 0 to 1e9', coalesce(delay::text, 'null')), 'give a positive number');
    end if;
    until := coalesce(moment, clock_timestamp() + make_interval(secs => delay));
    postponed := act_on_failures('postpone', its_fingerprint, who, until, moment is null, at_most);
end $$;

-- Does an act of the three above with the next jobs of a kind of failure; the first call of several refuses a kind
-- without jobs. Returns with how many.
create or replace function txqueue.act_on_failures(
    act text, its_fingerprint text, who text, until timestamptz, is_first boolean, at_most integer) returns integer
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    ids   bigint[];
    moved bigint[] := '{}';
    last  bigint := '-9223372036854775808';
begin
    loop
        ids := array(
            select job_id from job
             where fingerprint = its_fingerprint and job_id > last and (failed_at <= until or act = 'postpone')
               and (state = 'failed' or act <> 'discard' and state = 'waiting' and waiting_for = 'time'
                    and (not_before < until or act = 'retry'))
             order by job_id limit at_most);
        if ids = '{}' and last < '-9223372036854775807' and is_first then
            perform refuse(format('no job has failed%s like %s', case when act = 'discard' then ' for good' else '' end,
                                  left(its_fingerprint, 100)), 'txqueue failures lists the kinds');
        end if;
        exit when ids = '{}';
        moved := case act when 'discard' then (cancel(ids, who)).cancelled
                          when 'retry' then (retry(ids, who)).retried
                          else reopen(ids, until) end;
        -- Jobs that are damaged, or whose unique key another job holds, are refused, and must not hide those behind them.
        exit when moved <> '{}';
        last := ids[cardinality(ids)];
    end loop;
    if act = 'postpone' and moved <> '{}' then
        perform note_action(who, 'postpone', format_job_ids(moved), jsonb_build_object(
            'jobs', moved, 'fingerprint', its_fingerprint, 'until', until));
    end if;
    return cardinality(moved);
end $$;

-- The common part of errors of one kind: the class, the message without variable parts, and the functions at
-- the end of the traceback; without line numbers, which change with every release. Null for no error. A regular
-- expression over the whole traceback would cost more than all other work for a failure.
create or replace function txqueue.fingerprint(error text) returns text
language plpgsql immutable parallel safe
as $$
declare
    frames text;
    line   text;
begin
    if error is null then
        return null;
    end if;
    for place in 1 .. 3 loop
        line := split_part(split_part(error, 'File "', -place), E'\n', 1);
        if line like '%", line %, in %' then
            frames := concat_ws(' ', split_part(replace(split_part(line, '"', 1), E'\\', '/'), '/', -1) || ':'
                                     || split_part(split_part(split_part(line, '", line ', 2), ', in ', 2), ' ', 1), frames);
        end if;
    end loop;
    return left(md5(concat_ws(E'\n', error_kind(error), frames)), 12);
end $$;

-- The text of an error without the parts that differ from job to job: quoted texts, values of keys, paths,
-- addresses, tokens (JWT, base64, ULIDs), dates, hashes and numbers; and of a list only its first element. The class
-- of an exception stays as it is: Error404 and Error500 are two kinds. Only the text of an exception begins with one:
-- it has a traceback, or at least says its class twice. A handler's own reason, such as Order4711: no address, does not.
create or replace function txqueue.error_kind(error text) returns text
language plpgsql immutable parallel safe
as $$
declare
    said text := left(split_part(error, E'\n', 1), 500);
    head text := coalesce(substring(said from E'^[^\\s:]+(?=: |$)'), '');
begin
    if not (position('Traceback (most recent call last):' in error) > 0 or position(E'\n' || head in error) > 0) then
        head := '';
    end if;
    said := substr(said, length(head) + 1);
    -- Patterns with lookaround are slow, so a cheap pattern decides first whether one can match.
    if said like '%)=(%' then
        said := regexp_replace(said, E'\\)=\\(.*\\)', ')=(*)');
    end if;
    if said ~ '[''"`]' then
        said := regexp_replace(said, E'(^|\\W)(''[^'']*''|"[^"]*"|`[^`]*`)', E'\\1*', 'g');
    end if;
    if said ~ E'[\u00ab\u00bb\u2018-\u201e\u2039]' then
        -- Guillemets either way, and the quotation marks of English, German and their neighbours.
        said := regexp_replace(said, E'\u00ab[^\u00bb]*\u00bb|\u00bb[^\u00ab]*\u00ab|\u2039[^\u203a]*\u203a'
                                     || E'|[\u201c\u201e][^\u201c\u201d]*[\u201c\u201d]|[\u2018\u201a][^\u2018\u2019]*[\u2018\u2019]', '*', 'g');
    end if;
    if said like '%/%' or said like E'%\\\\%' then
        said := regexp_replace(said, E'\\m([a-z][a-z0-9+.-]*://)[^\\s,;)\\]>]*', E'\\1*', 'gi');
        said := regexp_replace(said, E'(^|[\\s(\\[=:,])(~/|\\.{1,2}/|/[^\\s,;:()\\[\\]/*]+/|[a-z]:\\\\)[^\\s,;:()\\[\\]]*', E'\\1/*', 'gi');
        said := regexp_replace(said, E'(^|[\\s(\\[=:,])([\\w.@+-]+/)+[\\w@+-]+\\.[A-Za-z]\\w{0,4}(?![\\w+-])', E'\\1/*', 'g');
    end if;
    if said like '%@%' then
        said := regexp_replace(said, E'[\\w.+-]+@[\\w-]+(\\.[\\w-]+)+', '*', 'g');
    end if;
    if said like '%eyJ%' or said like '%arn:%' then
        said := regexp_replace(said, E'\\meyJ[\\w-]+\\.[\\w-]+(\\.[\\w-]*)?', '#', 'g');
        said := regexp_replace(said, E'\\m(arn:[\\w-]+:[\\w-]+):[^\\s,;)\\]]+', E'\\1:*', 'g');
    end if;
    if said ~ E'\\d\\d:\\d\\d|\\d[ -][A-Z][a-z]{2}' then
        said := regexp_replace(said, E'\\m\\d{4}-\\d\\d-\\d\\d[T ]\\d\\d:\\d\\d(:\\d\\d([.,]\\d+)?)?( ?(Z|UTC|GMT|[+-]\\d\\d(:?\\d\\d)?))?', '#', 'g');
        said := regexp_replace(said, E'(\\m(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? )?\\m\\d{1,2}[ -](Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*[ -]\\d{2,4}( \\d\\d:\\d\\d(:\\d\\d)?( ?([A-Z]{1,4}|[+-]\\d{4})\\M)?)?', '#', 'g');
        said := regexp_replace(said, E'\\m(Mon|Tue|Wed|Thu|Fri|Sat|Sun) (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\\d{1,2} \\d\\d:\\d\\d:\\d\\d( [A-Z]{3,4})? \\d{4}', '#', 'g');
    end if;
    if said like '%:%:%' then
        said := regexp_replace(said, E'(?<![\\w:.])(?=[0-9a-f:]*\\d)[0-9a-f]{0,4}(:[0-9a-f]{0,4}){2,7}(?![\\w:])', '#', 'gi');
    end if;
    if said ~ E'[\\w+/-]{20}' then
        -- Names of modules and columns have no inner capitals, and paths begin differently.
        said := regexp_replace(said, E'(?<![\\w/.+-])(?=[\\w+/-]*\\d)(?=[\\w+/-]*[a-z])(?=[\\w+/-]*[A-Z])[\\w+/-]{20,}={0,2}(?![\\w+/=-])', '#', 'g');
        said := regexp_replace(said, E'\\m[0-9][0-9A-HJKMNP-TV-Z]{25}\\M', '#', 'gi');
    end if;
    if said ~ E'[A-Z][\\w-]*\\d|\\d[\\w-]*[A-Z]' then
        -- Shorter ones, such as those of nanoid: names are made of words, which have four small letters in a row.
        said := regexp_replace(said, E'(?<![\\w/.+-])(?=[\\w-]*\\d)(?=[\\w-]*[a-z])(?=[\\w-]*[A-Z])(?![\\w-]*[a-z]{4})[\\w-]{10,}(?![\\w/.+-])', '#', 'g');
    end if;
    if said ~* '0x|[0-9a-f]{6}' then
        said := regexp_replace(said, E'\\m(0x[0-9a-f]+|[0-9a-f]{8,}(-[0-9a-f]+)*|(?=\\d*[a-f])(?=[a-f]*\\d)[0-9a-f]{6,7})\\M', '#', 'gi');
    end if;
    if said ~* E'[-+.]\\d|\\de[-+]?\\d|\\m(nan|inf)\\M' then
        said := regexp_replace(said, E'(\\d\\.?)e[-+]?\\d+\\M', E'\\1', 'gi');
        said := regexp_replace(said, E'(^|[\\s([{=:,])[-+]?(\\.?(\\d)|(nan|inf)\\M)', E'\\1\\30', 'gi');
    end if;
    said := regexp_replace(said, E'\\d+([.:,-]\\d+)*', '#', 'g');
    if said ~ '[#*][])}]?, ' then
        said := regexp_replace(said, E'([#*])(, \\1)+', E'\\1', 'g');
        said := regexp_replace(said, E'([\\w.]*[(\\[{][#*][)\\]}]|[#*]: [#*])(, \\1)+', E'\\1', 'g');
    end if;
    return head || said;
end $$;

-- The current kinds of failure, by work type: a thousand of them, each counted up to 10,000 jobs.
create or replace view txqueue.failures as
select kind.fingerprint collate "C" as fingerprint, kind.work_type collate "C" as work_type, kind.failed, kind.waiting,
       kind.first_seen, kind.last_seen, kind.example, kind.error, kind.is_more
  from txqueue.failure_kinds(1000, 10000) as kind;
comment on view txqueue.failures is 'Failed jobs, and jobs that wait for a retry, by the kind of their last error.';

-- The first kinds of failure, up to a number, of each work type, with the number of its failed jobs and of those
-- that wait for a retry, each counted up to another number; is_more says that there may be more. It goes from
-- kind to kind by the index, and reads one job of each.
create or replace function txqueue.failure_kinds(most_kinds integer, most_jobs integer)
returns table (fingerprint text, work_type text, failed bigint, waiting bigint, first_seen timestamptz, last_seen timestamptz,
               example bigint, error text, is_more boolean)
language plpgsql stable security definer
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    with recursive kind as (
        (select fingerprint, work_type from job where state in ('failed', 'waiting') and fingerprint is not null
          order by fingerprint, work_type limit 1)
        union all
        select following.fingerprint, following.work_type
          from kind,
               lateral (select fingerprint, work_type from job
                         where state in ('failed', 'waiting') and fingerprint is not null
                           and (fingerprint, work_type) > (kind.fingerprint, kind.work_type)
                         order by fingerprint, work_type limit 1) as following
    )
    select its.fingerprint, its.work_type, failed.jobs, waiting.jobs, oldest.failed_at, latest.failed_at, latest.job_id,
           left(split_part(readable_text(latest.error), E'\n', 1), 500), greatest(failed.jobs, waiting.jobs) >= most_jobs
      from (select * from kind limit most_kinds) as its
     cross join lateral (
        select count(*) as jobs
          from (select from job_failed where fingerprint = its.fingerprint and work_type = its.work_type limit most_jobs) as counted) as failed
     cross join lateral (
        select count(*) as jobs
          from (select from job_waiting where fingerprint = its.fingerprint and work_type = its.work_type limit most_jobs) as counted) as waiting
      left join lateral (
        select failed_at from job where state in ('failed', 'waiting') and fingerprint = its.fingerprint and work_type = its.work_type
         order by failed_at limit 1) as oldest on true
      left join lateral (
        select failed_at, job_id, error from job
         where state in ('failed', 'waiting') and fingerprint = its.fingerprint and work_type = its.work_type
         order by failed_at desc limit 1) as latest on true;
end $$;

-- An error's text with the same fingerprint that other errors of its kind have too: without the end that repeats its
-- message, and with equal digits in its first line after the class. So the fingerprint of many alike is computed once.
create or replace function txqueue.error_shape(error text) returns text
language plpgsql immutable parallel safe
as $$
declare
    message text := split_part(error, E'\n\nTraceback ', 1);
    frames  text := split_part(error, E'\n' || message, 1);
    line    text := left(split_part(message, E'\n', 1), 500);
    -- The class, or more: error_kind() decides.
    head    text := coalesce(substring(line from E'^[^\\s:]+(?=: |$)'), '');
begin
    if message like '%File "%' or (message <> error and frames || E'\n' || message <> error)
       or (message = error and message like E'%\n%') then
        return error;
    end if;
    -- Without a traceback it has no class.
    head := case when message <> error then head else '' end;
    -- No pattern of error_kind() tells these digits from each other.
    return head || regexp_replace(substr(line, length(head) + 1), '[2-9]', '1', 'g')
           || case when message <> error then substr(frames, length(message) + 1) else '' end;
end $$;
