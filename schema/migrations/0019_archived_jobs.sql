-- serves: 7
-- The numbers and the sums of archived days, so that their files need not be read for these.

alter table txqueue.archived
    add column lowest  bigint,
    add column highest bigint,
    add column ids     int8multirange,
    add column hours   jsonb;
comment on column txqueue.archived.ids is
    'The numbers of its jobs, from lowest to highest; null if they are not known: archived by an earlier release, or more than a million ranges.';
comment on column txqueue.archived.hours is
    'What stats() counts of it by hour and work type; null if an earlier release has archived it.';
