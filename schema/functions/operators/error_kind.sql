-- The text of an error without the parts that differ from job to job: quoted texts, values of keys, paths,
-- addresses, tokens (JWT, base64, ULIDs), dates, hashes and numbers; and of a list only its first element. The class
-- of an exception stays as it is: Error404 and Error500 are two kinds. Only the text of an exception begins with one:
-- it has a traceback, or at least says its class twice. A handler's own reason, such as Order4711: no address, does not.
create or replace function txqueue.error_kind(error text) returns text
language plpgsql immutable parallel safe
set search_path = txqueue, pg_temp
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
