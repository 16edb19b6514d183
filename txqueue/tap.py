"""``twistd txqueue``: the options of a node and the service that they configure."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from twisted.application.service import MultiService, Service
from twisted.logger import Logger
from twisted.python import usage

from txqueue.errors import ConfigurationError, TxqueueError
from txqueue.logs.setup import choose_log
from txqueue.model.names_elsewhere import option_elsewhere
from txqueue.model.work_item import known_work_types
from txqueue.node.application import import_work_items
from txqueue.node.master_process import install_reactor, prepare_process, running_reactor
from txqueue.node.node import Node
from txqueue.node.settings import NodeSettings, ensure_free, node_settings, summary_of
from txqueue.policy.health import Health, merge_health
from txqueue.store.enqueueing.encryption import check_key
from txqueue.store.schedules import declared
from txqueue.store.schema.files import checked_name
from txqueue.store.schema.migrations import check_database, check_node_role
from txqueue.system.service_manager import ServiceManager, take_service_manager
from txqueue.system.settings import TYPED_VARIABLE, Settings
from txqueue.wire.endpoints import Endpoint, parsed_endpoint
from txqueue.wire.tls import credentials_of

_log = Logger()
_SHORT = {"workers": "w", "queues": "q"}
_OPTIONS = {
    "workers": "how many worker processes (default: one for each core that this process may use)",
    "queues": "the queues to serve, joined by commas (default: default)",
    "capacity": "total weight of the jobs that a worker runs at a time (default: 100)",
    "name": "the node's name (default: the host's name)",
    "lease": "seconds of silence after which a node is presumed dead (default: 10)",
    "poll": "the most seconds for which an idle node does not look for work that no notification"
    " told of; at most a third of the lease (default: a quarter of it, at most 4)",
    "kill-stuck": "seconds after which a worker is killed that handlers keep from starting jobs"
    " (default: never)",
    "unreadable-for": "seconds after which a job fails whose payload no node can read"
    " (default: 3600)",
    "worker-start": "fork: workers share the memory of one import; spawn: each imports the"
    " application itself; auto: fork where there are several and it is safe (default: auto)",
    "worker-jobs": "how many jobs a worker runs before it is replaced (default: no limit)",
    "worker-memory": "the MiB of memory at which a worker is replaced (default: no limit; Linux)",
    "result-limit": "the longest result of a job, in bytes of JSON (default: 4194304)",
    "steps-limit": "the most bytes of the results of a job's steps together (default: 67108864)",
    "guard-failures": "how many failures of a new kind hold a work type, with --hold (default: 3)",
    "guard-share": "the share of its runs that these must be, with --hold (default: 0.1)",
    "schema": "the schema that has the tables (default: txqueue)",
    "admin": "where it answers operators and clients: unix:PATH or tcp:PORT[:interface=ADDRESS]"
    " (default: a unix socket in the state directory)",
    "listen": "where the node listens for peers: tcp:PORT[:interface=ADDRESS][:host=NAME]"
    " (default: nowhere; the node then has no peers)",
    "tls-dir": "folder with this node's ca.pem, NAME.pem and NAME.key: its ports then use TLS, and"
    " may be on any interface; txqueue certs makes the files",
    "health": "where /livez and /readyz answer over plain HTTP, for probes:"
    " tcp:PORT[:interface=ADDRESS] or unix:PATH (default: nowhere)",
    "web": "where the dashboard listens: tcp:PORT[:interface=ADDRESS] or unix:PATH"
    " (default: nowhere)",
    "web-users": "file of the dashboard's users; see txqueue web-user",
    "web-proxy": "NAME:HEADER: the proxy that identifies the dashboard's users, by the name of its"
    " certificate or account, and the header that names each user",
    "web-hosts": "host names that the dashboard answers to besides localhost, joined by commas",
    "web-base": "the dashboard's base path behind a proxy",
    "metrics": "where /metrics serves Prometheus: tcp:PORT[:interface=ADDRESS] or unix:PATH"
    " (default: nowhere)",
    "log-format": "text, or json: each line of the log is then a JSON object (default: text)",
    "state-dir": "folder of the node's own files (default: ~/.local/state/txqueue)",
}
_TYPED = os.environ.pop(TYPED_VARIABLE, "twistd txqueue")
_EMBEDDED = "start a PostgreSQL server in the state directory if no DSN is given; for development"


_HOLD = "claim no jobs of a type that fails on a new version of the application as on no older one"


class Options(usage.Options):
    """The options of ``twistd txqueue``; ``TXQUEUE_*`` and a file may set them too."""

    synopsis = "[options] --app MODULE"
    longdesc = "Run a node of the work queue: a master and its worker processes. SIGTERM drains it."

    optParameters = [
        [name, _SHORT.get(name), None, help_text] for name, help_text in _OPTIONS.items()
    ]
    optFlags = [["embedded", None, _EMBEDDED], ["hold", None, _HOLD]]

    def __init__(self) -> None:
        super().__init__()
        # Install the reactor before application code can schedule a call.
        install_reactor()
        self["app"] = []
        self["dsn"] = []
        self.nodes: list[NodeSettings] = []
        self.dashboard: Any = None
        self.metrics: Endpoint | None = None
        self.health: Endpoint | None = None
        self.service_manager: ServiceManager | None = None

    def opt_app(self, module: str) -> None:
        """A module that defines work items, or txqueue.django; may be repeated."""
        self["app"] += [name.strip() for name in module.split(",") if name.strip()]

    def opt_dsn(self, dsn: str) -> None:
        """The database: a libpq URI or keyword string; repeatable; TXQUEUE_DSN hides it from ps."""
        self["dsn"].append(dsn)

    @classmethod
    def documented(cls) -> list[tuple[str, str]]:
        """Return the options and what they mean."""
        own = {"app": cls.opt_app.__doc__, "dsn": cls.opt_dsn.__doc__, **_OPTIONS}
        return [
            *((f"--{name} VALUE", str(text)) for name, text in own.items()),
            ("--embedded", _EMBEDDED),
            ("--hold", _HOLD),
        ]

    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        """Report a wrong option as one line, as `postOptions` does."""
        try:
            super().parseOptions(options)
        except usage.UsageError as error:
            word = str(error).removeprefix("option ").partition(" ")[0]
            is_of_twistd = self.parent is not None and word.lstrip("-") in self.parent.synonyms
            remedy = f"write it before txqueue: twistd {word} txqueue" if is_of_twistd else ""
            remedy = remedy or option_elsewhere(word, ["--app", *map("--{}".format, _OPTIONS)])
            said = "; ".join(filter(None, (str(error).rstrip("."), remedy)))
            sys.exit(f"{_TYPED}: {said}; see: {_TYPED} --help")

    def postOptions(self) -> None:
        """Check all options before anything starts, and report an error as one line."""
        # Before the embedded server or any worker starts, which would inherit the variables.
        self.service_manager = take_service_manager(os.environ)
        settings = _settings(self)
        try:
            choose_log(settings, self.parent)
            _ensure_distinct(settings)
            dsns = settings.dsns()
            self._configure(settings, dsns)
            _check_application(self.nodes[0].app)
            # A wrong --app, which is likelier, is reported first.
            for node in self.nodes:
                ensure_free(node, is_named=settings.get("admin") is not None)
            if self["embedded"] and not any(dsns):
                # After all other checks, as this takes seconds and writes files.
                self._configure(settings, [_embedded_dsn(settings)])
            for node in self.nodes:
                check_database(node.dsn, node.schema)
                check_node_role(node.dsn, node.schema)
        except TxqueueError as error:
            # twistd prints a hundred lines of its own options before a UsageError.
            sys.exit(f"{_TYPED}: {' '.join(str(error).split())}")

    def _configure(self, settings: Settings, dsns: Sequence[str]) -> None:
        self.nodes = [node_settings(settings, dsn, index) for index, dsn in enumerate(dsns)]
        # The probes have no secrets, and those of a container manager have no certificate.
        if (health := _endpoint(settings, "health", is_public=True)) is not None:
            health.ensure_free("choose another --health")
        self.health = health
        if (web := _endpoint(settings, "web")) is not None:
            from txqueue.web.settings import dashboard_settings, named_databases

            web.ensure_free("choose another --web")
            databases = named_databases(dsns, self.nodes[0].schema)
            self.dashboard = dashboard_settings(settings, databases, web)
        if (metrics := _endpoint(settings, "metrics")) is not None:
            from txqueue.metrics.service import check_metrics

            check_metrics(metrics)
        self.metrics = metrics


def makeService(options: Options) -> MultiService:
    """Make the service of a node; with several databases, of a node for each."""
    reactor = running_reactor()
    assert options.nodes
    web = "" if options.dashboard is None else f"; dashboard at {options.dashboard.endpoint}"
    for settings in options.nodes:
        # What this process runs is the first line of the log.
        _log.info("{summary}{web}", summary=summary_of(settings), web=web)
    if abs(reactor.seconds() - time.monotonic()) > 1:
        _log.warn(
            "the reactor that --reactor chose times by the wall clock: when that is set, leases"
            " expire too early or too late; leave --reactor out"
        )
    _warn_of_spaces(options.nodes[0].queues)
    nodes = [Node(reactor, settings) for settings in options.nodes]
    prepare_process(reactor, nodes)
    services = [*nodes, *_surfaces(reactor, options, nodes)]
    if options.health is not None or options.service_manager is not None:
        return _with_reports(reactor, options, nodes, services)
    if len(services) == 1:
        return nodes[0]
    together = MultiService()
    for service in services:
        service.setServiceParent(together)
    return together


def _surfaces(reactor: Any, options: Options, nodes: list[Node]) -> Iterator[Any]:
    """Yield the services of the dashboard and of the metrics, if they were asked for."""
    if options.dashboard is not None:
        from txqueue.web.service import Dashboard

        yield Dashboard(reactor, options.dashboard)
    if options.metrics is not None:
        from txqueue.metrics.service import Metrics

        names, first = [node.name for node in options.nodes], options.nodes[0]
        nodes_by_name = dict(zip(names, nodes, strict=True))
        yield Metrics(reactor, options.metrics, first.dsn, first.schema, nodes_by_name)


def _with_reports(
    reactor: Any, options: Options, nodes: list[Node], services: list[Any]
) -> MultiService:
    """Return the services, within those that report the health of the nodes."""
    from txqueue.health.service import HealthServer, MasterProcess, ServiceNotices

    def report() -> Health:
        return merge_health([(node.node_name, node.health) for node in nodes])

    outer: list[Service] = []
    if options.health is not None:
        outer.append(HealthServer(reactor, options.health, report))
    if options.service_manager is None:
        return MasterProcess(services, outer)
    notices = ServiceNotices(reactor, options.service_manager, report)
    return MasterProcess(services, [*outer, notices], notices.begin_stop)


def _check_application(modules: list[str]) -> None:
    """Import the modules of the application, and check the work types that they define."""
    import_work_items(modules)
    if any(cls.encrypted for cls in known_work_types()):
        check_key()
    # Report an invalid class as one line, not as a traceback of the service.
    declared(known_work_types())


def _warn_of_spaces(queues: Sequence[str]) -> None:
    """Log that a queue's name has a space: names that spaces join are one name."""
    for queue in queues:
        if " " in queue:
            _log.warn(
                "the node serves one queue named {queue!r}; commas join several:"
                " --queues {several}",
                queue=queue,
                several=",".join(queue.split()),
            )


def _settings(options: Options) -> Settings:
    values = {name.replace("-", "_"): value for name, value in options.items()}
    flags = {**values, "app": options["app"] or None, "dsn": options["dsn"] or None}
    flags["deploy_guard"] = True if options["hold"] else None
    return Settings(flags, os.environ, Path.cwd())


def _endpoint(settings: Settings, option: str, *, is_public: bool = False) -> Endpoint | None:
    """Return where an option has this process listen; None for nowhere.

    With the certificate of this process, unless the port is public. An empty text in the
    environment is nowhere, too: it overrides the configuration file.

    Raises:
        ConfigurationError: When the endpoint is not valid.
    """
    if not (text := settings.get(option)):
        return None
    own = None if is_public else credentials_of(settings, settings.node_name())
    label = settings.label(option)
    return parsed_endpoint(str(text), own, is_public=is_public, option=label)


def _ensure_distinct(settings: Settings) -> None:
    """Check that no two options name the same port.

    Raises:
        ConfigurationError: When two do.
    """
    options_by_port: dict[tuple[str, int], str] = {}
    for name in ("admin", "listen", "health", "metrics", "web"):
        endpoint = _endpoint(settings, name, is_public=True)
        if endpoint is None or endpoint.path is not None:
            continue
        other = options_by_port.setdefault((endpoint.interface, endpoint.port), name)
        if other != name:
            raise ConfigurationError(
                f"--{other} and --{name} name the same port, {endpoint.port}",
                "give each a port of its own",
            )


def _embedded_dsn(settings: Settings) -> str:
    """Start the embedded server, which ends with this process, and return its DSN."""
    from txqueue.embedded import EmbeddedServer
    from txqueue.store.schema.migrations import migrate

    dsn = EmbeddedServer(settings.state_dir() / "embedded").start()
    migrate(dsn, checked_name(str(settings.get("schema", "txqueue"))))
    print(f"embedded PostgreSQL, for other programs: TXQUEUE_DSN='{dsn}'", file=sys.stderr)
    return dsn
