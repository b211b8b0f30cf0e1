"""Build the wheel and the sdist, and check everything that a release contains.

Tools are those of the dependency group `release`, in build/release. Each check prints a line; the
first that fails ends the command.
"""

from __future__ import annotations

import email
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / "build" / "release"
BIN = HOME / "venv" / ("Scripts" if os.name == "nt" else "bin")
# Fast tests that need files of the sdist.
OF_SDIST = ("tests/packaging", "tests/architecture", "tests/test_targets.py", "tests/scores")
_LINK = re.compile(r"\[[^\[\]]*\]\(([^()\s#]+)(?:#[^()\s]*)?\)|(?:src|srcset)=\"([^\"]+)\"")


def main() -> None:
    """Run every check."""
    install_tools()
    wheel, sdist = build()
    check_wheel(wheel)
    check_sdist(sdist)
    metadata = metadata_of(wheel)
    run(BIN / "twine", "check", "--strict", wheel, sdist)
    say("metadata valid, README renders")
    check_readme(metadata)
    check_versions(metadata["Version"])
    run(BIN / "cffconvert", "--validate", "-i", ROOT / "CITATION.cff")
    say("CITATION.cff valid")
    check_links()
    check_workflows()
    test_sdist(sdist)
    print(f"Ready: {wheel.name}, {sdist.name} in {wheel.parent.relative_to(ROOT)}")


def say(line: str) -> None:
    print(f"ok: {line}", flush=True)


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Return what a program prints; if it fails, print its output and exit."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=os.environ | environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def require(holds: bool, what: str, found: Iterable[object] = ()) -> None:
    if not holds:
        sys.exit("\n".join([f"not so: {what}", *map(str, found)]))
    say(what)


def install_tools() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = re.search(r"^release = \[.*?\n(.*?)^\]", text, re.DOTALL | re.MULTILINE)
    tools = re.findall(r'^ +"(.+?)",', listed[1], re.MULTILINE) if listed else []
    require(bool(tools), "the group `release` lists tools")
    shutil.rmtree(HOME, ignore_errors=True)
    run(sys.executable, "-m", "venv", HOME / "venv")
    for tool in tools:  # one at a time, to skip only the checks of tools that cannot be installed
        command = [BIN / "python", "-m", "pip", "install", "-qq", tool]
        done = subprocess.run([str(word) for word in command], check=False)
        if done.returncode:
            print(f"skipped: {tool} cannot be installed", flush=True)


def build() -> tuple[Path, Path]:
    out = HOME / "dist"
    run(BIN / "python", "-m", "build", "--outdir", out, ROOT, WASSLOSS_BUILD="strict")
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


def tracked(folder: str = "") -> set[str]:
    """The files in a folder that git tracks."""
    return set(run("git", "ls-files", "--", folder or ".").split("\n")) - {""}


def check_wheel(wheel: Path) -> None:
    """Check that the wheel has the tracked package, the compiled core and the licences."""
    require("-py3-none-any" not in wheel.name, "the wheel has the compiled core", [wheel.name])
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    info = {name for name in names if ".dist-info/" in name}
    expected = {
        name.removeprefix("src/")
        for name in tracked("src")
        if not name.endswith((".cpp", ".hpp", ".h"))
    }
    names = {name for name in names if not re.fullmatch(r"wassloss/native/_core\.\w+", name)}
    require(names - info == expected, "the wheel holds src/wassloss", (names - info) ^ expected)
    licences = {name.partition("/licenses/")[2] for name in info if "/licenses/" in name}
    needed = {
        "LICENSE",
        "src/wassloss/datasets/clipart/README.md",
        "src/wassloss/datasets/wordnet/LICENSE.txt",
    }
    require(licences == needed, "the wheel holds the licences of code and data", licences ^ needed)


def check_sdist(sdist: Path) -> None:
    """Check that the sdist has only tracked files, and all that a build and the tests need."""
    with tarfile.open(sdist) as archive:
        names = {each.name.partition("/")[2] for each in archive if each.isfile()}
    written = {"PKG-INFO", "setup.cfg", "build/wassloss.egg-info/SOURCES.txt"}  # by setuptools
    unknown = names - tracked() - written
    require(not unknown, "the sdist holds only files that git knows", unknown)
    needed = {"LICENSE", "README.md", "CITATION.cff", "conftest.py", "setup.py"}
    require(needed | tracked("src") <= names, "the sdist holds all that a build needs")


def metadata_of(wheel: Path) -> email.message.Message:
    with zipfile.ZipFile(wheel) as archive:
        name = next(each for each in archive.namelist() if each.endswith("/METADATA"))
        return email.message_from_bytes(archive.read(name))


def check_readme(metadata: email.message.Message) -> None:
    """Check that the README on a package index has no relative links, which would be dead."""
    text = metadata.get_payload(decode=True)
    found = [a or b for a, b in _LINK.findall(text.decode())]  # type: ignore[union-attr]
    relative = [link for link in found if not link.startswith("http")]
    require(not relative, "the README of the package has no relative links", relative)


def check_versions(version: str) -> None:
    """Check that the package, the citation and the changelog have the same version."""
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    titles = re.findall(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    found = {"citation": cited and cited[1], "changelog": titles[:1] and titles[0]}
    require(set(found.values()) == {version}, f"all speak of {version}", found.items())


def check_links() -> None:
    """Check that the relative links of every page lead to a file."""
    dead = []
    for page in sorted(name for name in tracked() if name.endswith(".md")):
        text = re.sub(r"```.*?```|`[^`\n]+`", "", (ROOT / page).read_text(), flags=re.DOTALL)
        links = {a or b for a, b in _LINK.findall(text)}
        relative = (link for link in links if not re.match(r"\w+:", link))
        folder = (ROOT / page).parent
        dead += [f"{page}: {link}" for link in relative if not (folder / link).exists()]
    require(not dead, "links between pages lead to files", dead)


def check_workflows() -> None:
    tool = BIN / "actionlint"
    if not tool.exists():
        print("skipped: workflows, for there is no actionlint for this system", flush=True)
        return
    run(tool, *sorted((ROOT / ".github/workflows").glob("*.yml")))
    say("workflows valid")


def test_sdist(sdist: Path) -> None:
    """Collect all tests of the sdist, and run a few, with the packages of this Python."""
    if any(
        importlib.util.find_spec(name) is None
        for name in ("pytest", "setuptools", "torch", "hypothesis")
    ):
        print("skipped: tests of the sdist, for this Python has no pytest, hypothesis or torch")
        return
    with tarfile.open(sdist) as archive:
        archive.extractall(HOME, filter="data")
    place = HOME / sdist.name.removesuffix(".tar.gz")
    run(
        sys.executable, "setup.py", "-q", "build_ext", "--inplace", cwd=place
    )  # all sources are present
    pytest = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    run(*pytest, "--collect-only", "tests", cwd=place, PYTHONPATH="src")
    done = run(*pytest, *OF_SDIST, cwd=place, PYTHONPATH="src")
    say(f"tests of the sdist are collected, and a few were run: {done.splitlines()[-1]}")


if __name__ == "__main__":
    main()
