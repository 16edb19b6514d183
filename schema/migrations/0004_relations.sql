-- What jobs have to do with each other, with schedules and with sets: unique keys, parents, batches.

alter table @schema@.job add column followed smallint;
comment on column @schema@.job.followed is 'Not null if something else happens when it ends: see follow().';

-- These return more than they did.
drop function if exists @schema@.complete_in_0(integer, bigint, bigint[]), @schema@.complete_in_1(integer, bigint, bigint[]),
    @schema@.complete_in_2(integer, bigint, bigint[]), @schema@.complete_in_3(integer, bigint, bigint[]),
    @schema@.complete_in_4(integer, bigint, bigint[]), @schema@.complete_in_5(integer, bigint, bigint[]),
    @schema@.complete_in_6(integer, bigint, bigint[]), @schema@.complete_in_7(integer, bigint, bigint[]);
