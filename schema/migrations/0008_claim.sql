-- serves: 7
-- The values that the steps of a claim pass to each other.

create type txqueue.claim_turn as (tenant text, part integer, is_reserve boolean);
comment on type txqueue.claim_turn is
    'A turn of a claim: the jobs of a tenant, up to a part of the room; without a tenant, the jobs of no tenant, or those that may use a reserve.';

create type txqueue.ready_head as (
    lane smallint, queue text, rank timestamptz, job_id bigint, until_rank timestamptz, until_job bigint);
comment on type txqueue.ready_head is
    'The first ready job of a lane and queue, and the rank and number at which the turn of another one begins.';

create type txqueue.open_queue as (queue text, jobs integer, kept integer, is_counted boolean, taken integer);
comment on type txqueue.open_queue is
    'The limits of a queue in one claim: the number of jobs (null for any number), the weight that stays free for priority 7 and higher, whether its jobs are counted, how many were taken.';
