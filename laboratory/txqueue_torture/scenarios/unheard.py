"""Claims that commit for a live node which never receives the answer."""

from __future__ import annotations

from txqueue_torture.demands import no_duplicates
from txqueue_torture.environment import Testbed
from txqueue_torture.scenario import scenario

__all__ = ["unheard_claim"]

CLAIMS = 3
# Claims at most ten jobs, so that some are left for the node itself.
_CLAIM = """
    select coalesce(sum(claimed.jobs), 0)
      from {schema}.node_info as node,
           {schema}.next_job(
               its_node => node.node_id, its_incarnation => node.incarnation,
               queues => array['default'],
               work_types => array(select distinct work_type from {schema}.job_ready),
               free_weight => 10, largest => 10, capacity => 10, chunk_jobs => 10,
               workers => 1) as claimed
     where node.name = %s and node.state = 'alive' and claimed.assignment is not null"""


@scenario("unheard_claim", "claims commit for a live node that never receives the answer")
def unheard_claim(testbed: Testbed) -> None:
    """Claim jobs in a node's name: the node detects that it lacks them, and returns them.

    A claim whose answer is lost has the same effect. The load exceeds the node's capacity, so that
    there is always a job to claim.
    """
    node = testbed.start_node("n1", workers=1, capacity=2).wait_up()
    testbed.start_client(rate=30, kinds=("slow:0.2",), count=120)
    testbed.flow(4)
    claimed = 0
    for _ in range(int(CLAIMS * testbed.scale)):
        testbed.rest(0.5)
        with testbed.fault("claim", snapshot=False) as fault:
            jobs = testbed.database.value(_CLAIM.format(schema=testbed.schema), (node.name,))
            claimed += jobs
            fault.evidence = f"{jobs} jobs claimed for node {node.name}" if jobs else ""
    testbed.figure("claimed", claimed)
    testbed.drain()
    no_duplicates(testbed)
