-- Whether claims of a node that reports this leave a ready job and take others behind it: it is a suspect and no process
-- is left for one, or too heavy however many others end.
create or replace function txqueue.passes_over(report jsonb, its_capacity integer, this job) returns boolean
language sql stable
set search_path = txqueue, pg_temp
as $$
    select this.deaths > 1 and not coalesce((report -> 'room' ->> 'takes_suspects')::boolean, true)
        or coalesce(this.weight > most_attainable(report, its_capacity,
               (select reserve from control where kind = 'queue' and key = this.queue and this.priority < 7)), false)
$$;
