-- Refuses limits that are out of range, or that do not apply to the kind of key.
create or replace function txqueue.check_limit(
    its_kind text, its_concurrency integer, its_rate double precision, its_burst integer,
    its_share double precision, its_reserve double precision, its_backlog bigint, cleared text[]) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    if its_concurrency < 1 then
        perform refuse(format('a concurrency of %s is below 1', its_concurrency), 'pause it, so that nothing starts');
    elsif not (its_rate >= 1e-6 and its_rate <= 1e6) then
        perform refuse(format('a rate of %s jobs a second is not from 0.000001 to 1000000', its_rate),
                       'pause it, so that nothing starts, or lift the rate');
    elsif its_burst not between 1 and 1000000 then
        perform refuse(format('a burst of %s is not within 1 to 1000000', its_burst), 'give how many jobs may start at once');
    elsif not (its_share >= 1e-6 and its_share <= 1e6) then
        perform refuse(format('a share of %s is not from 0.000001 to 1000000', its_share), '1 is the share of a tenant without one');
    elsif not (its_reserve >= 0 and its_reserve < 1) then
        perform refuse(format('a reserve of %s is not from 0 to below 1', its_reserve), 'give the part of a node''s capacity, such as 0.2');
    elsif its_share is not null and its_kind <> 'tenant' then
        perform refuse(format('a %s has no share', its_kind), 'shares are of tenants');
    elsif its_reserve is not null and its_kind <> 'queue' then
        perform refuse(format('a %s has no reserve', its_kind), 'reserves are of queues');
    elsif its_backlog < 1 then
        perform refuse(format('a backlog of %s is below 1', its_backlog), 'give how many jobs may wait or be ready');
    elsif its_backlog is not null and its_kind <> 'queue' then
        perform refuse(format('a %s has no backlog', its_kind), 'backlogs are of queues');
    elsif not cleared <@ '{concurrency,rate,burst,share,reserve,backlog}' then
        perform refuse('there is no such limit to lift', 'lift concurrency, rate, burst, share, reserve or backlog');
    end if;
end $$;
