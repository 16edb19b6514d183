"""Which requests may come in at all."""

from hypothesis import given
from hypothesis import strategies as st

from txqueue.web.site import foreign_host, foreign_origin

NAMES = st.from_regex(r"[a-z0-9.-]{1,30}", fullmatch=True)


@given(NAMES, st.none() | st.integers(0, 65535))
def test_a_host_is_answered_if_it_is_loopback_or_named(name: str, port: int | None) -> None:
    """With any port."""
    host = name if port is None else f"{name}:{port}"
    is_known = name in ("localhost", "127.0.0.1", "queue.example")
    assert (foreign_host(host, {"Queue.example"}) is None) == is_known
    assert foreign_host(host, None) is None


def test_a_request_without_a_host_is_refused() -> None:
    """A browser always sends one."""
    refusal = foreign_host(None, frozenset())
    assert refusal is not None
    assert refusal.status == 421


@given(st.sampled_from(["same-origin", "same-site", "cross-site", "none", ""]), NAMES)
def test_what_the_browser_says_of_the_site_decides(site: str, origin: str) -> None:
    """Whatever the origin."""
    headers = {"sec-fetch-site": site, "origin": f"http://{origin}", "host": origin}
    assert (foreign_origin(headers) is None) == (site == "same-origin")


@given(st.none() | NAMES, NAMES)
def test_an_older_browser_must_name_this_host_as_the_origin(origin: str | None, host: str) -> None:
    """With its scheme before it."""
    given_origin = None if origin is None else f"https://{origin}"
    headers = {"sec-fetch-site": None, "origin": given_origin, "host": host}
    assert (foreign_origin(headers) is None) == (origin == host)
