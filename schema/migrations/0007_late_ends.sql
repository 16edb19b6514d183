-- Renames the records of late ends and groups; older code uses the old names.

alter table txqueue.unfollowed rename to late_end;
alter sequence txqueue.has_unfollowed rename to has_late_ends;
alter table txqueue.unfreed rename to late_group;
comment on table txqueue.late_end is
    'Jobs to be looked at again: a transaction that concerned them had not committed when they ended.';
