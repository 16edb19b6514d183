-- Writes a schedule that was checked before; its next moment is recomputed only if its times change. Returns
-- whether anything changed.
create or replace function txqueue.save_schedule(
    its_name text, terms jsonb, its_job jsonb, condition jsonb, who text, declared boolean) returns boolean
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    insert into schedule as this (name, kind, expression, zone, seconds, jitter, catch_up, overlap, counts_from, until, times, job,
                                  condition_table, condition_column, condition_value, is_declared)
    values (its_name, terms ->> 'kind', case when terms ->> 'kind' = 'cron' then terms ->> 'expression' end,
            case when terms ->> 'kind' = 'cron' then terms ->> 'zone' end,
            case when terms ->> 'kind' <> 'cron' then (terms ->> 'seconds')::double precision end,
            coalesce((terms ->> 'jitter')::double precision, 0), coalesce(terms ->> 'catch_up', 'skip'),
            coalesce(terms ->> 'overlap', 'allow'), coalesce(terms ->> 'since', 'end'),
            (terms ->> 'until')::timestamptz, (terms ->> 'times')::integer,
            -- A policy that is published later does not bind it.
            its_job - '{not_before,not_after}'::text[] #- case when its_job -> 'options' = '{"keys": true}' then '{options}'::text[]
                when its_job #> '{options,keys}' = 'true' then '{options,keys}' else '{}' end,
            condition ->> 'table', condition ->> 'column', condition ->> 'value',
            declared)
    on conflict (name) do update set
        kind = excluded.kind, expression = excluded.expression, zone = excluded.zone, seconds = excluded.seconds,
        jitter = excluded.jitter, catch_up = excluded.catch_up, overlap = excluded.overlap, counts_from = excluded.counts_from,
        until = excluded.until, times = excluded.times, job = excluded.job,
        condition_table = excluded.condition_table, condition_column = excluded.condition_column,
        condition_value = excluded.condition_value, is_declared = excluded.is_declared, error = null,
        next_due = case when (this.kind, this.expression, this.zone, this.seconds, this.jitter, this.until, this.times)
                             is distinct from (excluded.kind, excluded.expression, excluded.zone, excluded.seconds, excluded.jitter,
                                               excluded.until, excluded.times)
                        then first_due(excluded.kind, this.last_job) else this.next_due end
     where (this.kind, this.expression, this.zone, this.seconds, this.jitter, this.catch_up, this.overlap, this.counts_from,
            this.until, this.times, this.job,
            this.condition_table, this.condition_column, this.condition_value, this.is_declared)
           is distinct from
           (excluded.kind, excluded.expression, excluded.zone, excluded.seconds, excluded.jitter, excluded.catch_up, excluded.overlap, excluded.counts_from,
            excluded.until, excluded.times, excluded.job,
            excluded.condition_table, excluded.condition_column, excluded.condition_value, excluded.is_declared);
    if not found then
        return false;
    end if;
    perform pg_notify('txqueue', '');
    if not declared then
        perform note_action(who, 'schedule', 'schedule ' || its_name, terms);
    end if;
    return true;
end $$;
