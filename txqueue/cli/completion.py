"""``txqueue completion``: the script by which a shell completes commands, options and names."""

from __future__ import annotations

import click

from txqueue.cli.options import GlobalOptions, command

SHELLS = ("bash", "zsh", "fish")


@command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, _options: GlobalOptions, /, shell: str) -> None:
    """Print the script that completes commands.

    It completes commands, options, names of queues, types and nodes. For bash and zsh, add to the
    shell's start file: eval "$(txqueue completion bash)". Of fish it is the file
    ~/.config/fish/completions/txqueue.fish

    Examples:
        completion bash
        completion fish
    """
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(context.find_root().command, {}, "txqueue", "_TXQUEUE_COMPLETE").source())
