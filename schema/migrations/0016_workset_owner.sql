-- serves: 7
-- Which login may change the stored policy of a workset.

alter table txqueue.workset add column owner text;
comment on column txqueue.workset.owner is 'The login of the application that made it, which alone may change it; null if only nodes have.';
