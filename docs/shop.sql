-- A shop for tea and coffee on an ordinary afternoon, for the pictures in the documentation.
select setseed(0.5);
select txqueue.ensure_history();
select setval('txqueue.job_id', 4816200);

insert into txqueue.node_info (name, hostname, pid, incarnation, lease, state, load, capacity, queues,
                               work_types, version, report, started_at, heartbeat_at)
select name, name || '.shop.example', pid, number, '1 day', state, load, 200, queues::text[],
       '{mail.order_confirmation,mail.shipping_notice,mail.newsletter,orders.capture_payment,orders.sync_stock,search.index_product,invoices.render,invoices.send_to_accounting,catalog.import_row,catalog.publish,images.resize:workset,reports.daily_sales}',
       '0.1.0', jsonb_build_object('lag', 0.0007 * number, 'memory', 71000000 + 5200000 * number, 'workers', 2, 'unable', 0,
                                   'processes', jsonb_build_array(jsonb_build_array(pid + 3, 'ready', (load * 104)::integer, (load * 110)::integer),
                                                                  jsonb_build_array(pid + 4, 'ready', (load * 90)::integer, (load * 90)::integer))),
       now() - up::interval, now() - interval '0.4 seconds' * number
  from (values (1, 'jobs-1', 1408, 'alive', 0.41, '{default,mail,orders}', '6 days 3 hours'),
               (2, 'jobs-2', 1377, 'alive', 0.36, '{default,mail,orders}', '6 days 3 hours'),
               (3, 'jobs-3', 2915, 'alive', 0.58, '{invoices,index,catalog}', '2 days 7 hours'),
               (4, 'jobs-4', 2231, 'draining', 0.04, '{invoices,index,catalog}', '19 days 4 hours'))
       as node (number, name, pid, state, load, queues, up);

create temporary table kind as
select * from (values
    ('mail.order_confirmation', 'mail', 7, 10, 30, 46, 0.03, 0.42),
    ('mail.shipping_notice', 'mail', 7, 10, 30, 31, 0.04, 0.38),
    ('mail.newsletter', 'mail', 2, 5, 30, 120, 3.1, 0.29),
    ('orders.capture_payment', 'orders', 8, 8, 60, 52, 0.02, 1.3),
    ('orders.sync_stock', 'orders', 5, 5, 120, 74, 0.4, 0.8),
    ('search.index_product', 'index', 4, 3, 300, 12, 1.9, 5.2),
    ('invoices.render', 'invoices', 4, 3, 120, 44, 0.7, 2.6),
    ('invoices.send_to_accounting', 'invoices', 3, 12, 60, 40, 1.1, 0.6),
    ('catalog.import_row', 'catalog', 2, 3, 60, 65, 2.4, 0.2),
    ('catalog.publish', 'catalog', 2, 3, 600, 0, 1.0, 9.0),
    ('images.resize:workset', 'default', 2, 3, 900, 0, 1.0, 40.0),
    ('reports.daily_sales', 'default', 4, 2, 3600, 0, 0.5, 210.0))
    as kind (work_type, queue, priority, attempts, timeout, rate, wait, run);
insert into txqueue.work_type (work_type, queue, priority, weight, policy)
select work_type, queue, priority, 1, jsonb_build_object('attempts', attempts, 'timeout', timeout) from kind;

-- What a job is about: an order, its customer and its shop.
create function pg_temp.payload(work_type text, number integer) returns jsonb language sql as $$
    select case split_part(work_type, '.', 1)
        when 'mail' then jsonb_build_object('order', 300000 + number, 'to', (array['ella', 'noah', 'mila', 'emil', 'ida'])[1 + number % 5] || number || '@example.com',
                                            'language', (array['en', 'de', 'sv'])[1 + number % 3])
        when 'orders' then jsonb_build_object('order', 300000 + number, 'amount', (number * 37 % 9000) / 100.0 + 8, 'currency', 'EUR')
        when 'invoices' then jsonb_build_object('invoice', '2026-' || 40000 + number, 'order', 300000 + number)
        when 'search' then jsonb_build_object('product', 'tea-' || 1000 + number % 800)
        else jsonb_build_object('file', 'supplier-prices.csv', 'row', number) end
$$;
create function pg_temp.tenant(number integer) returns text language sql as
    $$ select (array['leaf-and-bean', 'leaf-and-bean', 'morning-roast', 'green-valley', 'corner-cafe'])[1 + number % 5] $$;

create function pg_temp.put(its_state text, its_type text, jobs integer, every interval, its_waiting_for text default null,
                            since interval default '0', its_error text default null, its_group text default null) returns void language sql as $$
    insert into txqueue.job (job_id, rank, not_before, enqueued_at, assigned_at, started_at, finished_at, assignment, node_id,
        incarnation, weight, priority, attempt, lane, state, waiting_for, work_type, queue, "group", tenant, payload, error,
        fingerprint, failed_at, options)
    select nextval('txqueue.job_id'), at, case its_waiting_for when 'time' then now() + since + every * number else at end, at,
           case when its_state <> 'waiting' then ran end, case when its_state <> 'waiting' then ran end, case when its_state in ('done', 'failed') then ran + interval '1 second' * run * (0.7 + number % 7 / 10.0) end,
           case when its_state = 'assigned' then number end, case when ran is not null and its_state <> 'waiting' then node.node_id end,
           case when its_state = 'assigned' then node.incarnation end, 1, priority,
           case when its_state = 'failed' then attempts when its_error is not null then 2 when its_state = 'done' then 1 else 0 end,
           number % 8, its_state::txqueue.job_state, its_waiting_for, work_type, queue,
           its_group || number % 3, pg_temp.tenant(number), pg_temp.payload(work_type, number), its_error,
           txqueue.fingerprint(its_error), case when its_error is not null then ran + interval '1 second' * run * (0.7 + number % 7 / 10.0) end,
           case when work_type = 'mail.newsletter' then '{"tags": {"campaign": "first-flush"}}'
                when number % 4 = 0 and queue = 'orders' then jsonb_build_object('tags', jsonb_build_object('channel', (array['web', 'app', 'phone'])[1 + number % 3])) end::jsonb
      from generate_series(1, jobs) as number, kind,
           lateral (select now() - every * number - interval '3 seconds' - case when its_waiting_for = 'time' and its_error is null then interval '0' else since end as at) as put,
           lateral (select case when its_state not in ('waiting', 'ready') or its_error is not null then at + interval '1 second' * wait
                + interval '35 seconds' * case when its_error is null then 0 when its_state = 'failed' then attempts - 1 else 1 end end as ran) as began,
           lateral (select node_id, incarnation from txqueue.node_info as node
                     where state = 'alive' and kind.queue = any(node.queues)
                     order by (incarnation + number) % 2 limit 1) as node
     where work_type = its_type
$$;

select pg_temp.put('done', work_type, greatest(40, rate * 60)::integer, interval '1 minute' / greatest(rate, 0.2)) from kind
 where rate > 0;
-- What the schedules have enqueued.
select pg_temp.put('done', 'reports.daily_sales', 1, '1 second', since => '9 hours 40 minutes');
select pg_temp.put('done', 'search.index_product', 1, '1 second', since => '7 minutes');
select pg_temp.put('done', 'orders.sync_stock', 1, '1 second', since => '2 minutes 30 seconds');
create temporary table scheduled as
select max(job_id) as last_job, work_type, (array_agg(enqueued_at order by job_id desc))[1] - interval '0.3 seconds' as due
  from txqueue.job where state = 'done' and work_type in ('reports.daily_sales', 'search.index_product', 'orders.sync_stock') group by work_type;
select pg_temp.put('ready', 'mail.newsletter', 1840, '0.05 seconds');
select pg_temp.put('ready', 'search.index_product', 96, '11 seconds');
select pg_temp.put('ready', 'invoices.render', 3, '0.4 seconds');
select pg_temp.put('assigned', 'mail.newsletter', 42, '0.02 seconds');
select pg_temp.put('assigned', 'mail.order_confirmation', 3, '0.2 seconds');
select pg_temp.put('assigned', 'orders.capture_payment', 6, '0.3 seconds');
select pg_temp.put('assigned', 'orders.sync_stock', 3, '0.4 seconds', its_group => 'warehouse:');
select pg_temp.put('assigned', 'invoices.render', 12, '0.7 seconds');
select pg_temp.put('assigned', 'images.resize:workset', 4, '35 seconds');
select pg_temp.put('waiting', 'orders.sync_stock', 38, '2 seconds', 'group', its_group => 'warehouse:');
select pg_temp.put('waiting', 'mail.shipping_notice', 210, '20 seconds', 'time', '25 minutes');
select pg_temp.put('failed', 'orders.capture_payment', 7, '4 minutes', since => '8 minutes', its_error =>
E'PaymentGatewayError: the gateway answered 502 Bad Gateway

Traceback (most recent call last):
  File "/srv/shop/shop/orders.py", line 88, in perform
    receipt = await gateway.capture(self.order, self.amount, self.currency)
  File "/srv/shop/shop/payment.py", line 41, in capture
    raise PaymentGatewayError(f"the gateway answered {reply.code} {reply.phrase}")
shop.payment.PaymentGatewayError: the gateway answered 502 Bad Gateway');
select pg_temp.put('waiting', 'orders.capture_payment', 4, '40 seconds', 'time', '1 minute', its_error =>
E'PaymentGatewayError: the gateway answered 502 Bad Gateway

Traceback (most recent call last):
  File "/srv/shop/shop/orders.py", line 88, in perform
    receipt = await gateway.capture(self.order, self.amount, self.currency)
  File "/srv/shop/shop/payment.py", line 41, in capture
    raise PaymentGatewayError(f"the gateway answered {reply.code} {reply.phrase}")
shop.payment.PaymentGatewayError: the gateway answered 502 Bad Gateway');
select pg_temp.put('failed', 'mail.shipping_notice', 5, '23 minutes', since => '11 minutes', its_error =>
E'SMTPRecipientsRefused: 550 5.1.1 mailbox unavailable

Traceback (most recent call last):
  File "/srv/shop/shop/mail.py", line 34, in perform
    await self.send(message)
  File "/srv/shop/shop/mail.py", line 52, in send
    await sender.send(message)
aiosmtplib.errors.SMTPRecipientsRefused: 550 5.1.1 mailbox unavailable');
select pg_temp.put('failed', 'invoices.send_to_accounting', 12, '7 minutes', since => '35 minutes', its_error =>
E'KeyError: ''vat_id''

Traceback (most recent call last):
  File "/srv/shop/shop/invoices.py", line 119, in perform
    document = self.as_document(customer)
  File "/srv/shop/shop/invoices.py", line 140, in as_document
    "vat": customer["vat_id"],
KeyError: ''vat_id''');
select pg_temp.put('waiting', 'search.index_product', 2, '2 minutes', 'time', '3 minutes', its_error =>
E'TimeoutError: the job ran for longer than 300 s');

-- A batch: an import of prices, in progress; its callback waits for the rows.
select pg_temp.put('done', 'catalog.import_row', 947, '0.3 seconds');
create temporary table import as
select job_id from (select job_id from txqueue.job where work_type = 'catalog.import_row' and state = 'done' order by job_id desc limit 947) as done;
select pg_temp.put('failed', 'catalog.import_row', 3, '25 seconds', since => '40 seconds', its_error =>
E'ValueError: could not convert string to float: ''12,50''

Traceback (most recent call last):
  File "/srv/shop/shop/catalog.py", line 27, in perform
    price = float(self.columns["price"])
ValueError: could not convert string to float: ''12,50''');
select pg_temp.put('ready', 'catalog.import_row', 42, '0.1 seconds');
select pg_temp.put('assigned', 'catalog.import_row', 8, '0.1 seconds');
insert into import select job_id from txqueue.job where work_type = 'catalog.import_row' and state <> 'done';
select pg_temp.put('waiting', 'catalog.publish', 1, '4 minutes', 'parents');
insert into txqueue.job_parent (child, parent, any_end, ended)
select (select job_id from txqueue.job where work_type = 'catalog.publish'), job_id, true,
       case when state in ('done', 'failed') then state::text end
  from import join txqueue.job using (job_id);

-- A job that tells its progress, and the attempts of those that failed.
update txqueue.job set progress = '[6420, 12400, "orders read"]', enqueued_at = now() - interval '108.4 seconds',
       not_before = now() - interval '108.4 seconds', assigned_at = now() - interval '108 seconds', started_at = now() - interval '107.6 seconds'
 where job_id = (select min(job_id) from txqueue.job where state = 'assigned' and work_type = 'orders.sync_stock');
insert into txqueue.failed_attempt (job_id, attempt, at, began, node_id, error, error_class, log)
select job_id, number, ended, ended - interval '1 second' * run,
       coalesce(node_id, (select min(node_id) from txqueue.node_info where kind.queue = any(queues))),
       error, substring(error from E'\n([a-z.]*[A-Z]\\w+): [^\n]*$'),
       concat_ws(E'\n', to_char(ended - interval '0.9 seconds' * run, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || ' info shop: ' || work_type || ' ' || (payload - 'to')::text,
                 to_char(ended - interval '0.1 seconds' * run, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || ' warning shop: ' || split_part(error, E'\n', 1))
  from txqueue.job join kind using (work_type), lateral generate_series(1, attempt) as number,
       lateral (select failed_at - interval '35 seconds' * (attempt - number) as ended) as moment
 where error is not null;
update txqueue.job set result = jsonb_build_object('message_id', md5(job_id::text)) where state = 'done' and queue = 'mail' and job_id % 3 = 0;

insert into txqueue.schedule (name, kind, expression, zone, seconds, job, next_due, last_due, is_declared, is_active, last_job, recent, dues)
select name, kind, expression, zone, seconds, jsonb_build_object('work_type', work_type), now() + next::interval, due,
       declared, active, last_job, array_remove(array[last_job], null), array_remove(array[due], null)
  from (values ('daily sales', 'cron', '0 6 * * *', 'Europe/Stockholm', null, 'reports.daily_sales', '14 hours 20 minutes', true, true),
               ('newsletter', 'cron', '30 9 * * 2', 'Europe/Stockholm', null, 'mail.newsletter', '1 day', false, true),
               ('refresh the search index', 'every', null, null, 900, 'search.index_product', '8 minutes', false, true),
               ('stock of the warehouse', 'every', null, null, 300, 'orders.sync_stock', '2 minutes 30 seconds', true, true),
               ('supplier prices', 'cron', '0 */4 * * *', 'UTC', null, 'catalog.publish', '1 hour 20 minutes', false, false))
       as given (name, kind, expression, zone, seconds, work_type, next, declared, active)
  left join scheduled using (work_type);
-- As its page computes it: next Tuesday at half past nine.
update txqueue.schedule set next_due = first + case when first < now() then interval '7 days' else '0' end
  from (select (date_trunc('week', now() at time zone zone) + interval '1 day 9 hours 30 minutes') at time zone zone as first
          from txqueue.schedule where name = 'newsletter') as tuesday
 where name = 'newsletter';

insert into txqueue.workset (name, work_type, job, size, batch, is_started, expected, done, failed) values
    ('product_photos', 'images.resize', '{}', 4, 500, true, 0, 41200, 17),
    ('old_customers', 'mail.newsletter', '{}', 2, 100, true, 0, 12840, 0);
insert into txqueue.workset_part (workset_id, origin, items, job_id)
select 1, number, 500, (select job_id from txqueue.job where state = 'assigned' and work_type = 'images.resize:workset' order by job_id offset number - 1 limit 1)
  from generate_series(1, 37) as number;
insert into txqueue.workset_slot (job_id, workset_id, done) select job_id, 1, 120 from txqueue.job where work_type = 'images.resize:workset';

select txqueue.set_limit('queue', 'mail', 60, 120, null, null, null, 'ann');
select txqueue.set_limit('queue', 'orders', 40, null, null, null, null, 'ann', its_backlog => 100000);
select txqueue.set_limit('tenant', 'corner-cafe', 5, null, null, 0.5, null, 'ben');
select txqueue.pause('queue', 'index', 'ben');
delete from txqueue.action;
insert into txqueue.action (at, who, what, subject, detail) values
    (now() - interval '6 days 2 hours', 'ann', 'limit', 'queue orders', '{"concurrency": 40, "backlog": 100000}'),
    (now() - interval '2 days 7 hours', 'ann', 'limit', 'queue mail', '{"concurrency": 60, "rate": 120}'),
    (now() - interval '1 day 5 hours', 'ben', 'limit', 'tenant corner-cafe', '{"concurrency": 5, "share": 0.5}'),
    (now() - interval '5 hours', 'carla', 'run', 'schedule daily sales', '{}'),
    (now() - interval '3 hours', 'ben', 'pause', 'schedule supplier prices', '{}'),
    (now() - interval '48 minutes', 'ann', 'retry', 'jobs 4816233, 4816240', '{"jobs": [4816233, 4816240]}'),
    (now() - interval '26 minutes', 'ben', 'drain', 'node jobs-4', '{}'),
    (now() - interval '12 minutes', 'ben', 'pause', 'queue index', '{}');
select setval('txqueue.has_tenants', 1);

-- A month of minutes: quiet nights, busy evenings, a newsletter once a week, a gateway that fails at times.
insert into txqueue.minute_mark (at, seconds, last_job, enqueued)
select now() - interval '1 minute' * number, 60, 4816200 - number, 0 from generate_series(0, 1500) as number
 union all
select now() - interval '1 hour' * number, 3600, 4816200 - number * 60, 0 from generate_series(26, 719) as number;
create temporary table moment as
select at, seconds, 0.25 + 0.75 * power(0.5 + 0.5 * cos(2 * pi() * (extract(hour from at) + extract(minute from at) / 60.0 - 17) / 24), 1.5)
           + 0.09 * sin(extract(epoch from at) / 400) + 0.12 * random() as busy,
       extract(dow from at) = 2 and extract(hour from at) between 8 and 11 as is_newsletter, (extract(epoch from at)::bigint / 3600) % 31 = 3 as is_broken,
       greatest(0, 1 - extract(epoch from now() - at) / 540.0) as burst
  from txqueue.minute_mark;
insert into txqueue.minute_counts (at, queue, work_type, done, failed, wait_p50, wait_p95, run_p50, run_p95, waiting, ready, assigned)
select at, queue, work_type, seconds / 60 * rate * busy * (0.9 + 0.2 * random()) * case when work_type = 'mail.newsletter' and not is_newsletter then 0.4 else 1 end,
       seconds / 60 * rate * busy * case work_type when 'orders.capture_payment' then case when is_broken then 0.2 else 0.01 end
           when 'invoices.send_to_accounting' then 0.03 else 0.002 end * 2 * random(),
       wait * (0.6 + busy), wait * (0.6 + busy) * (3 + 2 * random()), run * (0.9 + 0.2 * random()), run * (2.5 + random()),
       case queue when 'orders' then 20 + 20 * busy when 'mail' then 150 + 60 * busy else 0 end / 2,
       case work_type when 'mail.newsletter' then 300 * busy + case when is_newsletter then 1500 * busy else 0 end + 1500 * burst when 'search.index_product' then 60 * busy else 4 * busy end,
       rate * busy * run / 12 + 2 * random()
  from moment, kind where rate > 0;
update txqueue.minute_mark set enqueued = (select sum(done) * (0.95 + 0.1 * random()) from txqueue.minute_counts as counts where counts.at = minute_mark.at);
analyze;
