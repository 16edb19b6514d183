-- serves: 7
-- Which process archives history, and until when: a pooler gives each statement of it another session.

alter table txqueue.duty
    add column holder uuid,
    add column until  timestamptz;
insert into txqueue.duty values ('archive') on conflict do nothing;
comment on table txqueue.duty is
    'Rows that a session locks while it does a duty for all. The duty archive has a holder instead, as it takes many transactions.';
comment on column txqueue.duty.holder is 'The process that archives, by a random number of its own; null before the first.';
comment on column txqueue.duty.until is 'Until when it has the duty unless it renews it.';
