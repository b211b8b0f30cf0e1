"""Build the package and, with a C++ compiler, its compiled core; the rest is in pyproject.toml.

The core is a plain shared library that `wassloss.native` loads with ctypes. It does not use
Python's ABI, so one wheel per platform serves every Python. Without a compiler the installation
succeeds without the core, and `wl.show_config()` reports it as missing. Two environment variables
are read:

`WASSLOSS_BUILD`
    "required" makes a missing core an error, "strict" also every warning of the compiler;
    "sanitize" builds with AddressSanitizer and UndefinedBehaviorSanitizer.
`WASSLOSS_ADDRESS`
    The address of the repository, for the links that a package index shows.
"""

from __future__ import annotations

import os
import re
import runpy
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from logging import WARNING
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError, OptionError

NATIVE = Path("src/wassloss/native")
CORE, DISPATCH = "src/wassloss/native/core.cpp", "src/wassloss/native/dispatch.cpp"
MODE = os.environ.get("WASSLOSS_BUILD", "")
if MODE not in ("", "required", "strict", "sanitize"):
    raise OptionError(f'WASSLOSS_BUILD must be "required", "strict" or "sanitize", got {MODE!r}')

# No -ffast-math: NaN and infinity keep their meaning.
GNU = [
    "-std=c++17", "-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math",
    "-fopenmp-simd", "-fvisibility=hidden", "-pthread",
]  # fmt: skip
GNU_STRICT = [
    "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror",
    "-Wno-pass-failed",  # a loop that clang does not vectorise is slower, not wrong
]  # fmt: skip
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
GNU_SANITIZE = [*SANITIZERS, "-fno-omit-frame-pointer", "-O1", "-g"]
# /GL- because optimisation at link time could mix instruction sets.
MSVC = ["/std:c++17", "/O2", "/EHsc", "/GL-", "/utf-8"]
MSVC_STRICT = ["/W3", "/WX"]

# What core.cpp is compiled for on x86-64, besides the compiler's default. The first is linked
# first: the linker keeps one copy of a function that several objects have inline, such as those of
# std::vector, and that copy has to run on every processor.
GNU_SETS = {
    "baseline": [],
    "avx2": ["-mavx2", "-mfma"],
    "avx512": [
        "-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mfma",
        "-mprefer-vector-width=512",
    ],
}  # fmt: skip
MSVC_SETS = {"baseline": [], "avx2": ["/arch:AVX2"], "avx512": ["/arch:AVX512"]}


def instruction_sets(platform: str, msvc: bool) -> dict[str, list[str]]:
    """Names and flags of the instruction sets to compile for.

    >>> list(instruction_sets("linux-x86_64", msvc=False))
    ['baseline', 'avx2', 'avx512']
    >>> instruction_sets("linux-aarch64", msvc=False)
    {'baseline': []}
    >>> instruction_sets("macosx-11.0-universal2", msvc=False)["avx2"]
    ['-Xarch_x86_64', '-mavx2', '-Xarch_x86_64', '-mfma']
    """
    machine = platform.rpartition("-")[2]
    if machine in ("x86_64", "amd64"):
        return MSVC_SETS if msvc else GNU_SETS
    if machine == "universal2":  # one command compiles for two processors
        return {
            name: [word for flag in flags for word in ("-Xarch_x86_64", flag)]
            for name, flags in GNU_SETS.items()
        }
    return {"baseline": []}


class BuildCore(build_ext):
    """Compile `core.cpp` for each instruction set, `dispatch.cpp` once, and link them."""

    def run(self) -> None:
        if self.inplace:  # an old library must not outlive a failure
            for old in NATIVE.glob("_core.*"):
                old.unlink()
        super().run()

    def get_ext_filename(self, fullname: str) -> str:
        """The name that wassloss/native/library.py looks for, without Python's version."""
        suffix = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
        return os.path.join(*fullname.split(".")) + suffix

    def build_extension(self, ext: Extension) -> None:
        library = Path(self.get_ext_fullpath(ext.name))
        library.unlink(missing_ok=True)
        try:
            self._build(library)
        except (BaseError, CCompilerError):
            if MODE:
                raise
            self.announce(
                "wassloss: no compiled core, because a C++ compiler is missing or failed (the line "
                "above); losses on a CPU will be slower: see wassloss.show_config()",
                level=WARNING,
            )

    def _build(self, library: Path) -> None:
        msvc = self.compiler.compiler_type == "msvc"
        flags = list(MSVC if msvc else GNU)
        link = [] if msvc else ["-pthread"]
        if MODE == "strict":
            flags += MSVC_STRICT if msvc else GNU_STRICT
        elif MODE == "sanitize":
            flags += GNU_SANITIZE
            link += SANITIZERS
        elif self.plat_name.startswith("linux"):
            link.append("-Wl,--strip-all")  # Python's own flags ask for debugging symbols

        def compiled(job: tuple[str, str, list[str]]) -> list[str]:
            source, name, extra = job
            return self.compiler.compile(
                [source],
                output_dir=os.path.join(self.build_temp, name),
                macros=[("WASSLOSS_ISA", name)],
                extra_postargs=flags + extra,
            )

        sets = instruction_sets(self.plat_name, msvc)
        jobs = [(DISPATCH, "baseline", []), *((CORE, name, sets[name]) for name in sets)]
        with ThreadPoolExecutor() as at_once:
            objects = [path for paths in at_once.map(compiled, jobs) for path in paths]
        self.compiler.link_shared_object(
            objects,
            str(library),
            extra_postargs=link,
            export_symbols=[],  # given, MSVC's import library stays out of the package
            target_lang="c++",
        )


class Build(build):
    """Start from nothing, and be a package of pure Python if there is no core."""

    def run(self) -> None:
        shutil.rmtree(self.build_lib, ignore_errors=True)  # what has gone must not be installed
        super().run()
        core = self.get_finalized_command("build_ext")
        if not all(map(os.path.exists, core.get_outputs())):
            self.distribution.ext_modules = []
            self.get_finalized_command("bdist_wheel").root_is_pure = True


class Wheel(bdist_wheel):
    """A wheel for one platform and every Python."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


def main() -> None:
    """What pyproject.toml leaves to this file."""
    source = Path("src/wassloss/__init__.py").read_text(encoding="utf-8")
    version = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)[1]
    address = os.environ.get("WASSLOSS_ADDRESS", "").rstrip("/")
    for_index = runpy.run_path("scripts/readme.py")["for_index"]
    readme = Path("README.md").read_text(encoding="utf-8")
    urls = {
        "Source": address,
        "Issues": f"{address}/issues",
        "Changelog": f"{address}/blob/v{version}/CHANGELOG.md",
    }
    Path("build").mkdir(exist_ok=True)
    setup(
        options={"egg_info": {"egg_base": "build"}},  # in src it would be taken for an installation
        version=version,
        long_description=for_index(readme, address, version),
        long_description_content_type="text/markdown",
        project_urls=urls if address else {},
        ext_modules=[Extension("wassloss.native._core", [CORE, DISPATCH], optional=not MODE)],
        cmdclass={"bdist_wheel": Wheel, "build": Build, "build_ext": BuildCore},
    )


if __name__ == "__main__":
    main()
