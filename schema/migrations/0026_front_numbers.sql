-- serves: 7
-- The numbers of group_front come from a sequence of its own: that of an identity column has no WAL as the table
-- has none, and a promoted standby of PostgreSQL 15 or later may be unable to read it ("bad magic number").

create sequence txqueue.front_number;
comment on sequence txqueue.front_number is 'The numbers of the rows of group_front.';
-- What has been noted is a short cut, and has numbers of the former sequence.
truncate txqueue.group_front;
alter table txqueue.group_front alter number drop identity, alter number set default nextval('txqueue.front_number');
