-- serves: 7
-- The values that the steps of a claim return. Named types, as a record of output parameters costs a call twice its time.

create type txqueue.opened_claim as (
    room integer, capacity integer, is_limited boolean, limits txqueue.open_queue[], queues text[], turns txqueue.claim_turn[],
    is_narrow boolean, largest integer, total integer, opens_in double precision, last_tenant text);
comment on type txqueue.opened_claim is
    'What a claim may look at: the room of the node and its capacity, the limits of its queues, the turns of its jobs, and what can become free.';

create type txqueue.step_bounds as (jobs integer, room integer, heaviest integer, is_counted smallint);
comment on type txqueue.step_bounds is
    'What a step of a claim may take from one queue: the most jobs, the room for them, the heaviest, and whether its jobs are counted.';

create type txqueue.claimed_chunk as (lane smallint, assignment bigint, jobs integer, weight bigint, chunk text, alone boolean);
comment on type txqueue.claimed_chunk is
    'Jobs that a claim took together: alone has suspects, which run in a process without other jobs.';

create type txqueue.claim_step as (
    found integer, taken integer, weight bigint, chunks txqueue.claimed_chunk[], parked integer, left_job bigint, is_drained boolean, is_whole boolean,
    is_cut boolean, is_blocked boolean, has_suspects boolean, last_rank timestamptz, last_job bigint);
comment on type txqueue.claim_step is
    'What a step of a claim found in one lane and queue, and what it took.';
