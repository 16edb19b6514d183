-- A shop on a bad morning: three nodes, jobs in all states, two kinds of failure, schedules, limits, acts.
-- EACH stands for the number of jobs of each kind.
insert into txqueue.node_info (name, hostname, pid, incarnation, lease, state, load, capacity, queues,
                               work_types, version, report, started_at, heartbeat_at)
select name, name || '.shop.example', 4000 + number, number, '1 day', state, load, 400,
       '{default,mail,orders,index}', '{mail.welcome,mail.receipt,orders.sync,search.reindex,reports.nightly}',
       '0.1.0', jsonb_build_object('lag', 0.0004 * number, 'memory', 61000000 + 900000 * number, 'workers', 2, 'unable', number / 3,
                                   'processes', jsonb_build_array(jsonb_build_array(5000 + number, 'ready', 10, 12), jsonb_build_array(6000 + number, 'blocked', 2, 2))),
       now() - interval '3 days' * number, now() - interval '1 second' * number
  from (values (1, 'app-1', 'alive', 0.62), (2, 'app-2', 'alive', 0.48), (3, 'app-3', 'draining', 0.05))
       as node (number, name, state, load);
insert into txqueue.work_type (work_type, queue, priority, weight, policy)
select work_type, queue, priority, 1, jsonb_build_object('attempts', attempts, 'timeout', timeout)
  from (values ('mail.welcome', 'mail', 7, 10, 30), ('mail.receipt', 'mail', 7, 10, 30),
               ('orders.sync', 'orders', 4, 5, 120), ('search.reindex', 'index', 2, 3, 900),
               ('reports.nightly', 'default', 4, 2, 3600)) as kind (work_type, queue, priority, attempts, timeout);
update txqueue.work_type set schema = '{"type": "object", "required": ["number", "shop"], "properties": {
    "number": {"type": "integer"}, "shop": {"type": "string"}, "lines": {"type": "array", "items": {"type": "string"}},
    "is_urgent": {"type": "boolean", "default": false}}}' where work_type = 'orders.sync';
insert into txqueue.job (job_id, rank, not_before, enqueued_at, assigned_at, started_at, finished_at, assignment,
    node_id, incarnation, weight, priority, attempt, lane, state, waiting_for, work_type, queue, "group", tenant,
    payload, result, error, fingerprint, failed_at, progress)
select nextval('txqueue.job_id'), at, at + wait, at, assigned, assigned, case when state in ('done', 'failed') then
       at + interval '4 seconds' end, case when state = 'assigned' then number end,
       (select node_id from txqueue.node_info where incarnation = 1 + number % 2),
       case when state = 'assigned' then 1 + number % 2 end, 1, priority,
       case when state in ('done', 'failed') then 1 + number % 3 else 0 end, number % 8, state::txqueue.job_state,
       waiting_for, work_type, queue, "group", tenant, jsonb_build_object('number', number, 'shop', tenant),
       case when state = 'done' then jsonb_build_object('sent', number) end, error,
       case when error is not null then md5(error) end, case when error is not null then now() end,
       case when work_type = 'search.reindex' and state = 'assigned' then '[420, 1000, "documents"]'::jsonb end
  from (select number, state, waiting_for, work_type, queue, priority, error, wait,
               now() - interval '37 seconds' * number as at,
               case when state <> 'waiting' and state <> 'ready' then now() - interval '37 seconds' * number + interval '1.3 seconds' end as assigned,
               case when waiting_for = 'group' then 'shop:' || number % 4 end as "group",
               (array['acme', 'globex', 'initech', null])[1 + number % 4] as tenant
          from generate_series(1, EACH) as number,
               (values ('done', null, 'mail.welcome', 'mail', 7, null, interval '0'),
                       ('done', null, 'mail.receipt', 'mail', 7, null, interval '0'),
                       ('ready', null, 'orders.sync', 'orders', 4, null, interval '0'),
                       ('waiting', 'group', 'orders.sync', 'orders', 4, null, interval '0'),
                       ('waiting', 'time', 'reports.nightly', 'default', 4, null, interval '6 hours'),
                       ('waiting', 'type', 'legacy.export', 'legacy', 4, null, interval '0'))
               as kind (state, waiting_for, work_type, queue, priority, error, wait)
        union all
        select number, state, null, work_type, queue, 4, error, interval '0', now() - interval '50 seconds' * number,
               now() - interval '50 seconds' * number + interval '0.7 seconds', case when work_type = 'orders.sync' then 'shop:' || number end, 'acme'
          from generate_series(0, 5) as number,
               (values ('assigned', 'search.reindex', 'index', null), ('assigned', 'orders.sync', 'orders', null),
                       ('failed', 'orders.sync', 'orders', E'ConnectionError: the shop''s API answered 502\n  File "shop.py", line 31, in perform\n    await self.send(order)\nconnection.py, line 12, in send'),
                       ('failed', 'mail.receipt', 'mail', E'SMTPRecipientsRefused: mailbox full'))
               as kind (state, work_type, queue, error)) as job;
insert into txqueue.failed_attempt (job_id, attempt, at, began, node_id, error)
select job_id, attempt, finished_at, started_at, node_id, error from txqueue.job where state = 'failed';
insert into txqueue.schedule (name, kind, expression, zone, seconds, job, next_due, last_due) values
    ('nightly report', 'cron', '0 3 * * *', 'Europe/Berlin', null, '{"work_type": "reports.nightly"}', now() + interval '7 hours', now() - interval '17 hours'),
    ('reindex', 'every', null, null, 900, '{"work_type": "search.reindex"}', now() + interval '8 minutes', now() - interval '7 minutes');
select txqueue.pause('queue', 'index', 'bob');
select txqueue.set_limit('queue', 'index', 4, null, null, null, null, 'bob');
select txqueue.set_limit('queue', 'orders', 20, 50, null, null, null, 'ann', its_backlog => 100000);
select txqueue.set_limit('tenant', 'globex', 5, null, null, null, null, 'ann');
insert into txqueue.action (at, who, what, subject, detail) values
    (now() - interval '2 hours', 'ann', 'drain', 'node app-3', '{}'),
    (now() - interval '20 minutes', 'bob', 'pause', 'queue index', '{"reason": "disk"}');
select setval('txqueue.has_tenants', 1);
insert into txqueue.minute_mark (at, seconds, last_job, enqueued)
select now() - interval '1 minute' * number, 60, 1000 - number, 300 + 200 * sin(number / 9.0) from generate_series(0, 1439) as number
 union all
select now() - interval '1 hour' * number, 3600, 1000 - number, 18000 + 9000 * sin(number / 4.0) from generate_series(25, 700) as number;
insert into txqueue.minute_counts (at, queue, work_type, done, failed, wait_p50, wait_p95, run_p50, run_p95, waiting, ready, assigned)
select mark.at, kind.queue, kind.work_type, (mark.seconds / 60 * kind.rate * (1 + 0.5 * sin(number / 9.0)))::integer,
       (mark.seconds / 60 * greatest(0, kind.rate / 70.0 * (1 + sin(number * 1.7))))::integer,
       kind.wait, kind.wait * (4 + 2 * sin(number / 5.0)), kind.run, kind.run * (4 + sin(number / 4.0)), 120,
       greatest(0, 60 + 90 * sin(number / 9.0)), 12
  from (select *, row_number() over (order by at desc) as number from txqueue.minute_mark) as mark,
       (values ('mail', 'mail.welcome', 280, 0.02, 0.4), ('mail', 'mail.receipt', 190, 0.03, 0.6),
               ('orders', 'orders.sync', 95, 0.8, 2.1), ('index', 'search.reindex', 3, 6.0, 41.0))
       as kind (queue, work_type, rate, wait, run);
update txqueue.job set options = jsonb_build_object('tags', jsonb_build_object('campaign', 'spring', 'team', 'billing <7>'))
 where work_type in ('mail.receipt', 'orders.sync') and job_id % 3 = 0;
