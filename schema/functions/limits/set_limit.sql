-- Limits a queue, a group or a tenant, effective at once: null leaves a limit unchanged, and those named in
-- cleared are lifted first. Returns the limits that now apply, null if there are none.
create or replace function txqueue.set_limit(
    its_kind text, its_key text, its_concurrency integer, its_rate double precision, its_burst integer,
    its_share double precision, its_reserve double precision, who text, cleared text[] default '{}',
    its_backlog bigint default null)
returns jsonb
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
set enable_seqscan = off
as $$
declare
    this control;
begin
    perform check_limit(its_kind, its_concurrency, its_rate, its_burst, its_share, its_reserve, its_backlog, cleared);
    this := lock_control(its_kind, its_key);
    this.concurrency := coalesce(its_concurrency, case when not 'concurrency' = any (cleared) then this.concurrency end);
    this.rate := coalesce(its_rate, case when not 'rate' = any (cleared) then this.rate end);
    this.burst := coalesce(its_burst, case when 'burst' = any (cleared) then 1 else this.burst end);
    this.share := coalesce(its_share, case when 'share' = any (cleared) then 1 else this.share end);
    this.reserve := coalesce(its_reserve, case when 'reserve' = any (cleared) then 0 else this.reserve end);
    this.backlog := coalesce(its_backlog, case when not 'backlog' = any (cleared) then this.backlog end);
    if its_burst is not null and this.rate is null then
        perform refuse('a burst without a rate limits nothing', 'give a rate with it');
    end if;
    if this.rate is null then
        execute format('drop sequence if exists bucket_%s', this.control_id);
        this.burst := 1;
    else
        execute format('create sequence if not exists bucket_%s as bigint minvalue 0 start 0', this.control_id);
    end if;
    if its_backlog is not null then
        perform set_config('lock_timeout', '2s', true);
        create index if not exists job_waiting_queue_idx on job_waiting (queue);
    end if;
    if this.kind = 'queue' and this.concurrency is not null then
        update job_assigned set counted = 1 where queue = its_key and counted is null;
    end if;
    perform save_control(this);
    perform note_action(who, 'limit', its_kind || ' ' || its_key, jsonb_build_object(
        'concurrency', its_concurrency, 'rate', its_rate, 'burst', its_burst, 'share', its_share,
        'reserve', its_reserve, 'backlog', its_backlog, 'cleared', to_jsonb(nullif(cleared, '{}'))));
    return (select to_jsonb(left_over) - 'control_id' from control as left_over where kind = its_kind and key = its_key);
end $$;
