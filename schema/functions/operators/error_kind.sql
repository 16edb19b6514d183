-- The text of an error without the parts that differ from job to job: quoted texts, temporary paths,
-- addresses, tokens (base64, ULIDs), hashes and numbers.
create or replace function txqueue.error_kind(error text) returns text
language plpgsql immutable parallel safe
set search_path = txqueue, pg_temp
as $$
declare
    said text := left(split_part(error, E'\n', 1), 500);
begin
    -- Patterns with lookaround are slow, so a cheap pattern decides first whether one can match.
    if said ~ '[''"]' then
        said := regexp_replace(said, E'(^|\\W)(''[^'']*''|"[^"]*")', E'\\1*', 'g');
    end if;
    if said like '%/%' then
        said := regexp_replace(said, E'(/(tmp|var/tmp|var/folders|dev/shm|run/user))/[^\\s,;:)\\]]+', E'\\1/*', 'g');
    end if;
    if said like '%:%:%' then
        said := regexp_replace(said, E'(?<![\\w:.])(?=[0-9a-f:]*\\d)[0-9a-f]{0,4}(:[0-9a-f]{0,4}){2,7}(?![\\w:])', '#', 'gi');
    end if;
    if said ~ E'[\\w+/-]{20}' then
        -- Names of modules and columns have no inner capitals, and paths begin differently.
        said := regexp_replace(said, E'(?<![\\w/.+-])(?=[\\w+/-]*\\d)(?=[\\w+/-]*[a-z])(?=[\\w+/-]*[A-Z])[\\w+/-]{20,}={0,2}(?![\\w+/=-])', '#', 'g');
        said := regexp_replace(said, E'\\m[0-9][0-9A-HJKMNP-TV-Z]{25}\\M', '#', 'gi');
    end if;
    if said ~* '0x|[0-9a-f]{6}' then
        said := regexp_replace(said, E'\\m(0x[0-9a-f]+|[0-9a-f]{8,}(-[0-9a-f]+)*|(?=\\d*[a-f])(?=[a-f]*\\d)[0-9a-f]{6,7})\\M', '#', 'gi');
    end if;
    return regexp_replace(said, E'\\d+([.:,-]\\d+)*', '#', 'g');
end $$;
