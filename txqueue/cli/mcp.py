"""``txqueue mcp``: serves agents over the Model Context Protocol."""

from __future__ import annotations

from txqueue.cli.options import GlobalOptions, command
from txqueue.errors import ConfigurationError


@command()
def mcp(options: GlobalOptions) -> None:
    """Serve an agent by the Model Context Protocol, to read.

    It speaks on standard input and output.

    Examples:
        mcp --dsn service=shop
    """
    import asyncio

    from txqueue.agents.tools import read_tools

    try:
        from txqueue.agents.server import AgentServer
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise ConfigurationError(
            "agents need the package mcp", "install it: pip install 'txqueue[mcp]'"
        ) from None
    tools = {tool.name: tool for tool in read_tools(options)}
    asyncio.run(AgentServer(tools, {}).serve())
