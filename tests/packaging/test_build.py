"""setup.py for a small package: with a C++ compiler, without one, and after an earlier build."""

import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LICENCES = ["datasets/wordnet/LICENSE.txt", "datasets/clipart/README.md"]
CORE = "namespace wassloss { namespace WASSLOSS_ISA { int one() { return 1; } } }\n"
DISPATCH = """
namespace wassloss { namespace baseline { int one(); } }
#ifdef _WIN32
#define EXPORTED extern "C" __declspec(dllexport)
#else
#define EXPORTED extern "C" __attribute__((visibility("default")))
#endif
EXPORTED int wassloss_one(void) { return wassloss::baseline::one(); }
"""
WARNED_OF = CORE.replace("one() {", "one() { int zero = 0.5; (void)zero;")

on_unix = pytest.mark.skipif(
    os.name == "nt", reason="needs POSIX, where the environment names compilers"
)
compiles = pytest.mark.skipif(
    os.name != "nt" and not shutil.which((sysconfig.get_config_var("CXX") or "c++").split()[0]),
    reason="needs a C++ compiler",
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, tmp_path)
    package = tmp_path / "src/wassloss"
    for name in LICENCES:
        (package / name).parent.mkdir(parents=True)
        (package / name).write_text("yours")
    native = package / "native"
    native.mkdir()
    (package / "__init__.py").write_text('__version__ = "1.2"\n')
    (native / "__init__.py").touch()
    (native / "core.cpp").write_text(CORE)
    (native / "dispatch.cpp").write_text(DISPATCH)
    (native / "wassloss.h").touch()
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/readme.py", tmp_path / "scripts")
    return tmp_path


def setup(project: Path, *words: str, **environment: str) -> subprocess.CompletedProcess:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("WASSLOSS_")
    }
    return subprocess.run(
        [sys.executable, "setup.py", *words],
        cwd=project,
        env=inherited | environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )


def wheel(project: Path, **environment: str) -> tuple[str, set[str], str]:
    """Build a wheel; return its name, its contents and the output."""
    done = setup(project, "bdist_wheel", **environment)
    assert not done.returncode, done.stdout
    (path,) = (project / "dist").iterdir()
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        pure = "Root-Is-Purelib: true" in archive.read("wassloss-1.2.dist-info/WHEEL").decode()
    assert pure == ("any" in path.name)
    path.unlink()
    return path.name, names, done.stdout


def has_core(names: set[str]) -> bool:
    return any(name.startswith("wassloss/native/_core.") for name in names)


@compiles
def test_one_wheel_serves_every_python_of_a_platform(project: Path) -> None:
    name, names, _ = wheel(project)
    platform = sysconfig.get_platform().split("-")[0]
    assert name.startswith(f"wassloss-1.2-py3-none-{platform}")
    assert has_core(names)
    assert not [name for name in names if name.endswith((".cpp", ".hpp", ".h"))]
    assert {f"wassloss/{name}" for name in LICENCES} < names


@on_unix
@pytest.mark.parametrize("way", ["none on the path", "one that fails"])
def test_without_a_compiler_there_is_a_wheel_without_the_core(project: Path, way: str) -> None:
    without = {"PATH": str(project)} if way == "none on the path" else {"CXX": "false"}
    name, names, said = wheel(project, **without)
    assert name == "wassloss-1.2-py3-none-any.whl"
    assert not has_core(names)
    assert {f"wassloss/{name}" for name in LICENCES} < names
    assert said.count("wassloss: no compiled core") == 1


@on_unix
@compiles
def test_a_wheel_without_the_core_has_none_of_before(project: Path) -> None:
    extra = project / "src/wassloss/extra.py"
    extra.touch()
    _, names, _ = wheel(project)
    assert has_core(names)
    assert "wassloss/extra.py" in names
    extra.unlink()
    setup(project, "build_ext", "--inplace")
    assert list(project.glob("src/wassloss/native/_core.*"))
    _, names, _ = wheel(project, CXX="false")
    assert not has_core(names)
    assert "wassloss/extra.py" not in names


@on_unix
@compiles
def test_an_old_core_does_not_outlive_a_failed_build_in_place(project: Path) -> None:
    assert not setup(project, "build_ext", "--inplace").returncode
    (library,) = project.glob("src/wassloss/native/_core.*")
    assert not setup(project, "build_ext", "--inplace", CXX="false").returncode
    assert not library.exists()


@on_unix
def test_a_core_that_is_required_fails_without_a_compiler(project: Path) -> None:
    assert setup(project, "bdist_wheel", WASSLOSS_BUILD="required", CXX="false").returncode


@compiles
def test_warnings_are_errors_when_strict_and_not_for_users(project: Path) -> None:
    assert not setup(project, "build_ext", WASSLOSS_BUILD="strict").returncode
    (project / "src/wassloss/native/core.cpp").write_text(WARNED_OF)
    assert has_core(wheel(project)[1])
    assert setup(project, "build_ext", WASSLOSS_BUILD="strict").returncode


def test_an_unknown_way_to_build_is_an_error(project: Path) -> None:
    done = setup(project, "build_ext", WASSLOSS_BUILD="fast")
    assert done.returncode
    assert '"required", "strict" or "sanitize", got \'fast\'' in done.stdout


def test_the_sdist_builds(project: Path) -> None:
    """The sdist includes headers, although they are in no list of sources."""
    assert not setup(project, "-q", "sdist", "--formats=zip").returncode
    with zipfile.ZipFile(project / "dist/wassloss-1.2.zip") as archive:
        names = {name.partition("/")[2] for name in archive.namelist()}
    native = {"core.cpp", "dispatch.cpp", "wassloss.h"}
    assert {f"src/wassloss/native/{name}" for name in native} < names
    assert {"MANIFEST.in", "setup.py", "scripts/readme.py", "README.md"} < names


def test_instruction_sets_are_those_of_the_processor() -> None:
    sets = runpy.run_path(str(ROOT / "setup.py"))["instruction_sets"]
    assert list(sets("linux-x86_64", msvc=False)) == ["baseline", "avx2", "avx512"]
    assert sets("win-amd64", msvc=True)["avx2"] == ["/arch:AVX2"]
    assert sets("macosx-11.0-arm64", msvc=False) == {"baseline": []}
    assert sets("linux-aarch64", msvc=False) == {"baseline": []}
    # One command compiles for two processors, only one of which has the flag.
    both = sets("macosx-11.0-universal2", msvc=False)
    assert both["avx2"] == ["-Xarch_x86_64", "-mavx2", "-Xarch_x86_64", "-mfma"]
