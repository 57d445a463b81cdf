"""C++ sources and a folder in; the shared library of the kernels in that folder, or why there is none, out.

The build hook and the tests load this file by its path: only the standard library is used. By hand:
`python llm/fetchly_llm/backends/native/build.py`.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARY = "kernels.so"
# Neither the compiler nor a processor may choose the order of float operations: no fast-math, no contraction, and
# instruction sets are named file by file.
_FLAGS = ("-std=c++17", "-O3", "-ffp-contract=off", "-fPIC", "-fvisibility=hidden", "-pthread", "-w")
_SOURCES = (
    *("api", "attention", "generic", "layers", "model"),
    *("packing", "pool", "stream_weights", "streams", "weights"),
)
_VARIANTS = {
    "avx2": ("-mavx2", "-mfma"),
    "avxvnni": ("-mavx2", "-mfma", "-mavxvnni"),
    "avx512": ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni", "-mfma"),
}
_TIMEOUT = 300  # seconds per file; a file takes one


@dataclass(frozen=True, slots=True)
class BuildFailed(Exception):
    """No library could be built; `reason` is one line."""

    reason: str

    def __str__(self) -> str:
        return self.reason


def build(folder: Path = HERE, extra_flags: Sequence[str] = ()) -> Path:
    """Compile the kernels into `folder` / LIBRARY and return its path. Raises BuildFailed.

    $CXX names the compiler, else c++, g++ or clang++ is taken. Variants that the compiler does not know are left out.
    """
    compiler = _compiler()
    with tempfile.TemporaryDirectory() as temporary:
        objects = Path(temporary)
        variants = _VARIANTS if platform.machine().lower() in ("x86_64", "amd64") else {}

        def compiled(name: str, flags: Sequence[str]) -> str:
            command = [*compiler, *_FLAGS, *flags, *extra_flags, "-c", str(HERE / "source" / f"{name}.cpp")]
            return _run([*command, "-o", str(objects / f"{name}.o")])

        with ThreadPoolExecutor(os.cpu_count() or 1) as workers:
            failures = dict(zip(variants, workers.map(compiled, variants, variants.values()), strict=True))
            known = [name for name in variants if not failures[name]]
            defines = [f"-DWITH_{name.upper()}" for name in known]
            problems = [text for text in workers.map(lambda name: compiled(name, defines), _SOURCES) if text]
        if problems:
            raise BuildFailed(f"{compiler[0]} failed: {_first_line(problems[0])}")
        parts = [str(objects / f"{name}.o") for name in (*_SOURCES, *known)]
        linked = objects / LIBRARY
        problem = _run([*compiler, "-shared", "-pthread", *extra_flags, *parts, "-o", str(linked), *_link_flags()])
        if problem:
            raise BuildFailed(f"{compiler[0]} could not link: {_first_line(problem)}")
        # Put in place at once: a process that has the old file open keeps it.
        beside = folder / f"{LIBRARY}.new"
        try:
            shutil.copyfile(linked, beside)
            os.replace(beside, folder / LIBRARY)
        except OSError as error:
            raise BuildFailed(f"{folder / LIBRARY} cannot be written: {error.strerror or error}") from error
    return folder / LIBRARY


def up_to_date(folder: Path = HERE) -> bool:
    """Whether the library in `folder` is younger than everything it is made of."""
    library = folder / LIBRARY
    if not library.is_file():
        return False
    parts = [Path(__file__), *(HERE / "source").iterdir()]
    return library.stat().st_mtime > max(part.stat().st_mtime for part in parts)


def _compiler() -> list[str]:
    named = os.environ.get("CXX")
    if named and named.strip():
        try:
            return shlex.split(named)
        except ValueError as error:
            raise BuildFailed(f"$CXX is no command: {named} ({error})") from error
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return [name]
    raise BuildFailed("there is no C++ compiler (c++, g++, clang++ or $CXX)")


def _link_flags() -> tuple[str, ...]:
    """The C++ library goes into the file, so that it runs where another version of it, or none, is installed."""
    if sys.platform != "linux":
        return ()
    return ("-static-libstdc++", "-static-libgcc", "-Wl,--exclude-libs,ALL", "-Wl,-z,noexecstack")


def _run(command: Sequence[str]) -> str:
    """Empty where the command succeeded, else what it said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr or f"exit code {done.returncode}"


def _first_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "no message").strip()


if __name__ == "__main__":
    print(build())
