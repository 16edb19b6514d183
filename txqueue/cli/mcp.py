"""``txqueue mcp``: serves agents over the Model Context Protocol."""

from __future__ import annotations

import click

from txqueue.cli.options import GlobalOptions, command
from txqueue.errors import ConfigurationError


@command()
@click.option("--act", "may_act", is_flag=True, help="Let the agent act, too: each act twice.")
def mcp(options: GlobalOptions, *, may_act: bool) -> None:
    """Serve an agent by the Model Context Protocol.

    Its client starts the command, and speaks with it over standard input and output. The agent
    may read. With --act it may also act: a first call says what would change, a second one
    confirms that, with a reason, which is recorded.

    Examples:
        mcp --dsn service=shop
        mcp --act
    """
    import asyncio

    try:
        from txqueue.agents.acts import Acting
        from txqueue.agents.server import AgentServer
        from txqueue.agents.tools import read_tools
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise ConfigurationError(
            "agents need the package mcp", "install it: pip install 'txqueue[mcp]'"
        ) from None
    reads, acts = [*read_tools(options)], [*Acting(options).tools()]
    server = AgentServer(reads + acts, []) if may_act else AgentServer(reads, acts)
    asyncio.run(server.serve())
