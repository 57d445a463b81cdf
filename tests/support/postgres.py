"""A PostgreSQL server of the tests' own: a free port, a temporary folder, a password; gone at the end."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PASSWORD = "s3cret/of the@tests"
QUOTED = "s3cret%2Fof%20the%40tests"


def programs() -> Path | None:
    """The folder of the server's programs: on the path, or where Debian puts them, the newest first."""
    found = shutil.which("initdb")
    folders = [Path(os.path.realpath(found)).parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "pg_ctl").exists()), None)


def _reason() -> str:
    """Why there is nothing to test with; "" where there is, or where the lack is to fail."""
    is_here = programs() is not None or os.environ.get("TEST_POSTGRES") == "required"
    return "" if is_here else "no PostgreSQL server here (Debian: apt-get install postgresql)"


needs_postgres = pytest.mark.skipif(bool(_reason()), reason=_reason() or "-")


@contextmanager
def postgres_server() -> Iterator[str]:
    """The URL of a database on it. The server refuses to run as root: there the user `postgres` runs it."""
    folder = programs()
    assert folder is not None, "no PostgreSQL server"
    user = "postgres" if os.getuid() == 0 else None
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def run(program: str, *arguments: str) -> None:
        # Into a file, not a pipe: the server keeps what it is given open.
        with tempfile.TemporaryFile() as said:
            command = [str(folder / program), *arguments]
            code = subprocess.run(command, user=user, stdout=said, stderr=said, cwd="/", timeout=120).returncode
            said.seek(0)
            assert code == 0, said.read().decode()

    with tempfile.TemporaryDirectory(prefix="postgres-") as name:
        data = Path(name) / "data"
        password = Path(name) / "password"
        password.write_text(PASSWORD)
        if user is not None:
            for path in (Path(name), password):
                shutil.chown(path, user)
        run("initdb", "-D", str(data), "-U", "tests", "-E", "UTF8", "--locale=C", "-A", "scram-sha-256",
            "--pwfile", str(password), "--no-sync")  # fmt: skip
        options = f"-F -p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={name}"
        run("pg_ctl", "-D", str(data), "-w", "-t", "60", "-l", f"{name}/log", "-o", options, "start")
        try:
            yield f"postgresql://tests:{QUOTED}@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-D", str(data), "-w", "-m", "immediate", "stop")
