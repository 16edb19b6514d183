"""A release has the same bytes wherever it is built, and one place says how stable it is."""

import io
import json
import tarfile
from pathlib import Path

import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.release import ROOT, hashes, name_subject, normalize

FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def packed(folder: Path, moment: int, names: list[str]) -> Path:
    """Make a source distribution as setuptools does on some machine."""
    folder.mkdir()
    with tarfile.open(folder / "x-1.tar.gz", "w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(f"x-1/{name}")
            member.size, member.mtime, member.uid, member.uname = 3, moment, moment, "ann"
            archive.addfile(member, io.BytesIO(b"abc"))
    return folder


def test_a_source_distribution_tells_nothing_of_its_machine(tmp_path: Path) -> None:
    """Times, owners and the order of files do not change its bytes; the moment is the commit's."""
    one = packed(tmp_path / "one", 1000, ["a", "b"])
    other = packed(tmp_path / "other", 2000, ["b", "a"])
    assert hashes(one) != hashes(other)
    for folder in (one, other):
        normalize(folder / "x-1.tar.gz", 1500)
    assert hashes(one) == hashes(other)
    with tarfile.open(one / "x-1.tar.gz") as archive:
        assert {(each.mtime, each.uid, each.uname) for each in archive} == {(1500, 0, "")}
        assert archive.extractfile("x-1/b").read() == b"abc"  # type: ignore[union-attr]


def test_the_list_of_what_is_installed_says_of_what() -> None:
    """A reader of it looks up the subject on the index, and does not count it as a dependency."""
    ours = {"name": "x", "version": "1", "type": "library", "bom-ref": "x==1"}
    other = {"name": "y", "version": "2", "type": "library", "bom-ref": "y==2"}
    listed = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "metadata": {"timestamp": "2026-11-28T00:00:00+00:00"},
        "components": [ours, other],
        "dependencies": [{"ref": "x==1", "dependsOn": ["y==2"]}, {"ref": "y==2"}],
    }
    named = name_subject(listed, "x")
    assert named["components"] == [other]
    assert named["metadata"]["component"] == {**ours, "purl": "pkg:pypi/x@1"}
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(json.dumps(named)) is None


def test_the_workflow_has_the_steps_of_a_release() -> None:
    """CI builds what RELEASING names, with the same commands."""
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    steps = (ROOT / "RELEASING.md").read_text("utf-8")
    for command in ("make dist", "make docs"):
        assert f"`{command}`" in steps
        assert command in workflow


def test_issue_forms_ask_for_what_helps() -> None:
    """Each is a valid form whose fields have names of their own."""
    forms = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in FORMS}
    assert {"bug", "idea"} <= forms.keys()
    for name in ("bug", "idea"):
        fields = [each["id"] for each in forms[name]["body"] if each["type"] != "markdown"]
        assert len(set(fields)) == len(fields)
        assert {"name", "description"} <= forms[name].keys()
    assert "txqueue doctor" in FORMS[0].read_text("utf-8")
