"""The file of users, who sent a request, and logins, whose tries are limited as they begin."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Event, Timer
from typing import Any

import pytest
from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from tests.waiting import eventually, running_reactor
from txqueue.errors import AdminRefused, ConfigurationError
from txqueue.web.logins import (
    FREE_TRIES,
    KEPT_FOR_KNOWN,
    MOST_CHECKED,
    MOST_OF_ADDRESS,
    PAUSE,
    Identification,
    IdentityProxy,
    LoggedIn,
    Logins,
    TryRefused,
    User,
    parsed_proxy,
    read_users,
    user_line,
    without_user,
)
from txqueue.web.messages import Role
from txqueue.wire.guarded_pipes import network_of

OWNER, STRANGER = "192.0.2.1", "198.51.100.9"
PATIENCE = 10.0


class Steps(Clock):
    """A clock that a test advances, with threads that report to the running reactor."""

    def callFromThread(self, function: Callable[..., Any], *args: Any) -> None:
        """Have the running reactor call a function."""
        running_reactor().callFromThread(function, *args)


@define
class SlowUser:
    """A user whose password is checked when the test says so."""

    name: str = "ann"
    role: Role = Role.OPERATOR
    checked: list[str] = field(factory=list)
    is_let: Event = field(factory=Event)

    def has_password(self, password: str) -> bool:
        """Wait, and compare."""
        self.is_let.wait(PATIENCE)
        self.checked.append(password)
        return password == "right"


class House:
    """Logins with one user, and their clock."""

    def __init__(self) -> None:
        self.clock = Steps()
        self.ann: Any = SlowUser()
        users = dict.fromkeys(("ann", "bob", *(f"user {each}" for each in range(99))), self.ann)
        self.logins = Logins(self.clock, users)  # type: ignore[arg-type]

    def tries(self, password: str, address: str, name: str = "ann", **more: Any) -> list[object]:
        """Begin a try; returns where its end appears."""
        ended: list[object] = []
        trying = self.logins.log_in(name, password, address, **more)
        Deferred.fromCoroutine(trying).addErrback(lambda failure: failure.value).addCallback(
            ended.append
        )
        return ended

    async def tried(self, password: str, address: str, **more: Any) -> object:
        """Try to log in, and wait for the end."""
        ended = self.tries(password, address, **more)
        await eventually(lambda: bool(ended), PATIENCE)
        return ended[0]


@pytest.fixture
def house() -> Iterator[House]:
    """Logins, whose thread ends with the test."""
    made = House()
    yield made
    made.ann.is_let.set()
    made.logins.close()


async def test_tries_count_when_they_begin(house: House) -> None:
    """Of forty at the same time only a few are checked; later ones begin one by one."""
    begun = [house.tries(f"guess {each}", STRANGER) for each in range(40)]
    refused = [ended[0] for ended in begun if ended]
    assert len(refused) == 40 - min(FREE_TRIES, MOST_OF_ADDRESS)
    assert all(isinstance(each, TryRefused) for each in refused)
    house.ann.is_let.set()
    await eventually(lambda: all(begun), PATIENCE)
    assert await house.tried("guess", STRANGER) is None
    for _ in range(3):
        last: Any = await house.tried("right", STRANGER)
        assert (last.text, last.status) == ("Too many tries: wait ten seconds.", 429)
    house.clock.advance(PAUSE)
    assert isinstance(await house.tried("right", STRANGER), LoggedIn)


async def test_others_tries_do_not_lock_a_user_out(house: House) -> None:
    """Not from another address, and not from the same one on a browser that was used before."""
    house.ann.is_let.set()
    known: Any = await house.tried("right", OWNER)
    for address in (STRANGER, OWNER):
        for _ in range(FREE_TRIES):
            assert await house.tried("guess", address) is None
        assert isinstance(await house.tried("right", address), TryRefused)
    assert isinstance(await house.tried("right", "192.0.2.77"), LoggedIn)
    again: Any = await house.tried("right", OWNER, device=known.device)
    assert again.device == known.device
    assert isinstance(await house.tried("right", OWNER, device="forged"), TryRefused)


async def test_a_browser_of_one_user_is_not_known_for_another(house: House) -> None:
    """The holder of an account gets no further tries for that of another user."""
    house.ann.is_let.set()
    known: Any = await house.tried("right", STRANGER)
    ends = [await house.tried("guess", STRANGER, name="bob", device=known.device) for _ in range(6)]
    assert isinstance(ends[-1], TryRefused)


async def test_few_passwords_are_checked_at_a_time(house: House) -> None:
    """Strangers' tries wait in a short queue of their own, and are refused beyond it."""
    room = MOST_CHECKED - KEPT_FOR_KNOWN
    addresses = [f"203.0.113.{each}" for each in range(room + 5)]
    begun = [house.tries("guess", each, name=f"user {at}") for at, each in enumerate(addresses)]
    busy = [ended[0] for ended in begun if ended]
    assert [each.status for each in busy] == [503] * 5  # type: ignore[attr-defined]
    house.ann.is_let.set()
    await eventually(lambda: all(begun), PATIENCE)
    # A refusal because of others is no try.
    assert isinstance(await house.tried("right", addresses[-1]), LoggedIn)


async def test_a_flood_leaves_room_for_browsers_that_have_logged_in(house: House) -> None:
    """From however many addresses; few addresses leave room for the first try of another, too."""
    house.ann.is_let.set()
    known: Any = await house.tried("right", OWNER)
    house.ann.is_let.clear()
    begun = [house.tries("guess", f"203.0.113.{at % 3}", name=f"user {at}") for at in range(40)]
    first = house.tries("right", STRANGER)
    begun += [house.tries("guess", f"203.0.112.{at}", name=f"user {at}") for at in range(40)]
    again = house.tries("right", OWNER, device=known.device)
    assert (first, again) == ([], [])
    house.ann.is_let.set()
    await eventually(lambda: all([*begun, first, again]), PATIENCE)
    assert isinstance(first[0], LoggedIn)
    assert isinstance(again[0], LoggedIn)


async def test_checks_that_wait_end_with_the_dashboard(house: House) -> None:
    """Without the work that they would have cost."""
    begun = [house.tries("right", STRANGER) for _ in range(3)]
    # The close waits for the check that runs.
    Timer(0.05, house.ann.is_let.set).start()
    house.logins.close()
    await eventually(lambda: all(begun), PATIENCE)
    assert len(house.ann.checked) <= 1


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_an_address_counts_with_its_network(address: str, counted: str) -> None:
    """One holder of an IPv6 network has very many addresses."""
    assert network_of(address) == counted


USERS = {"ann": User("ann", Role.OPERATOR), "bob": User("bob", Role.VIEWER)}
PROXY = IdentityProxy("www-data", "x-user")


def named(name: str) -> Callable[[object], str]:
    """Identify every caller by a name."""
    return lambda _transport: name


def unknown(_transport: object) -> str:
    """Refuse to name a caller, as over a plain port."""
    raise AdminRefused("refused", "")


@pytest.mark.parametrize(
    ("caller", "users", "headers", "name", "role"),
    [
        (unknown, None, {}, "a visitor of this host", Role.VIEWER),
        (unknown, USERS, {}, "", Role.STRANGER),
        (unknown, USERS, {"x-user": "ann"}, "", Role.STRANGER),
        (named("cyd"), USERS, {"x-user": "ann"}, "cyd", Role.OPERATOR),
        (named("www-data"), USERS, {"x-user": "ann"}, "ann", Role.OPERATOR),
        (named("www-data"), USERS, {"x-user": "bob"}, "bob", Role.VIEWER),
        (named("www-data"), None, {"x-user": "eve"}, "eve", Role.VIEWER),
        (named("www-data"), USERS, {}, "", Role.STRANGER),
        (named("www-data"), USERS, {"x-user": "a\nb"}, "", Role.STRANGER),
    ],
)
def test_a_request_has_the_role_of_its_sender(
    caller: Callable[[object], str],
    users: Mapping[str, User] | None,
    headers: Mapping[str, str],
    name: str,
    role: Role,
) -> None:
    """Only the named proxy's header counts, and only the file makes operators of its users."""
    identification = Identification(users, None, PROXY, caller)
    visitor = identification.visitor(object(), None, headers)
    assert (visitor.name, visitor.role) == (name, role)


@pytest.mark.parametrize("text", ["", "www-data", ":X-User", "www-data:", "www-data:X User"])
def test_a_proxy_needs_a_name_and_a_header(text: str) -> None:
    """With an example."""
    with pytest.raises(ConfigurationError, match="NAME:HEADER"):
        parsed_proxy(text)
    assert parsed_proxy("www-data:X-User") == PROXY


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that only this account can read."""
    path = tmp_path / "users"
    path.touch(mode=0o600)
    return path


def test_a_user_has_the_password_that_was_set(file: Path) -> None:
    """And no other; the file does not contain it."""
    file.write_text(user_line("ann", "operator", "café ☕") + "\n\n")
    ann = read_users(file)["ann"]
    assert ann.role == Role.OPERATOR
    assert ann.has_password("café ☕")
    assert not ann.has_password("cafe")
    assert not ann.has_password("")
    assert "caf" not in file.read_text()
    assert "digest" not in repr(ann)


def test_hashes_that_are_in_files_stay_right(file: Path) -> None:
    """They do not say with which parameters they were made."""
    salt, digest = "2dwnsRmg5n4GmgL3a/P8QA==", "ty1TOZmDxt9+gA/9kjUQ7UzSR1TFXmaFlI7U6ZdEevvYBhAe"
    file.write_text(f"ann viewer scrypt:{salt}:{digest}Y7I1Fzs74B05MPXuf0ws+SxD34ASxGkKfs4uvQ==")
    assert read_users(file)["ann"].has_password("café ☕")


def test_a_user_of_a_proxy_has_no_password(file: Path) -> None:
    """None is right."""
    file.write_text(user_line("bob", "viewer", None))
    bob = read_users(file)["bob"]
    assert bob.role == Role.VIEWER
    assert not bob.has_password("")
    assert not bob.has_password("-")


@pytest.mark.parametrize(
    "line",
    [
        *("ann", "ann operator", "ann king -", "ann viewer plain", "a b c d"),
        *("ann viewer scrypt:a", "ann viewer scrypt:!!:!!", "ann viewer md5:YQ==:YQ=="),
    ],
)
def test_a_line_that_is_no_user_is_refused(file: Path, line: str) -> None:
    """With its number."""
    file.write_text(f"bob viewer -\n{line}\n")
    with pytest.raises(ConfigurationError, match="line 2"):
        read_users(file)


def test_one_user_is_taken_out() -> None:
    """And no other whose name begins the same."""
    assert without_user("ann viewer -\nanna viewer -\n\nbob viewer -\n", "ann") == (
        "anna viewer -\n\nbob viewer -\n"
    )
