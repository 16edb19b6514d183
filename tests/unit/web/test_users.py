"""The file of users."""

from pathlib import Path

import pytest

from txqueue.errors import ConfigurationError
from txqueue.web.logins import read_users, user_line, without_user
from txqueue.web.messages import Role


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
