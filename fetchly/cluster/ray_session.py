"""A Ray cluster, the one that is there or one of this machine alone, in; actors on its nodes, and the end of both, out.

Ray is imported here and nowhere else. It sends its makers no figures of use, opens no dashboard, and what a cluster of
our own writes on disk goes with it.
"""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from fetchly.errors import ConfigurationError, FetchlyError, Interrupted

WORKER_LOST = "WORKER_LOST"
"""Why a page failed whose machine, or whose process there, went down. It is tried again."""
POLL_S = 0.1
_GOOD_BYE_S = 5.0
_CONNECT_S = 10.0
_FOLDER = "fetchly-ray-"
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no request where it does not belong
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # what it would warn of is what it will do
}


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of the cluster."""

    id: str
    cpus: float
    gpus: float


class Lost(FetchlyError):
    """What ran an actor's method has gone down with it."""

    code = WORKER_LOST
    retryable = True


@dataclass(frozen=True, slots=True)
class Actor:
    """An object in a process of its own on some machine, which is started anew when it goes down."""

    handle: Any

    def ask(self, method: str, *values: Any, should_stop: Callable[[], bool] = lambda: False) -> Any:
        """What a method returns. Errors: Lost, and Interrupted once `should_stop` answers True; the method goes on."""
        ray = _ray()
        try:
            answer = getattr(self.handle, method).remote(*values)
            while not ray.wait([answer], timeout=POLL_S)[0]:
                if should_stop():
                    raise Interrupted("the work of another machine was not waited for")
            return ray.get(answer)
        except ray.exceptions.RayTaskError:
            raise  # a bug of ours, with its place over there
        except ray.exceptions.RayError as error:
            raise Lost(f"its worker went down: {_first_line(error)}", hint="--resume --failed tries it again") from None


def end_all(actors: Sequence[Actor], up: Sequence[Actor]) -> None:
    """Have those that are up give back what they hold, then end all; what they are at is dropped. Errors: none."""
    ray = _ray()
    if not ray.is_initialized():
        return
    with suppress(ray.exceptions.RayError):
        if up:
            ray.wait([actor.handle.close.remote() for actor in up], num_returns=len(up), timeout=_GOOD_BYE_S)
    for actor in actors:
        with suppress(ray.exceptions.RayError):
            ray.kill(actor.handle)


def portable(error: Exception) -> Exception:
    """The error itself, or one that says the same where it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return FetchlyError(f"{type(error).__name__}: {error}", code="INTERNAL")
    return error


class RaySession:
    """Use as a context manager. A program that has called `ray.init` is joined, or else the cluster that RAY_ADDRESS
    names (`auto`: the one that runs on this machine); where neither is so, one is started here. Runs that overlap in
    one program share it: it ends with the last of them.

    Errors: ConfigurationError where Ray is not installed, does not start, or is not where RAY_ADDRESS says.
    """

    _lock = threading.Lock()
    _open = 0
    _connection = ExitStack()
    """Of all sessions of this program: Ray knows one cluster at a time."""

    def __init__(self) -> None:
        with RaySession._lock:
            if not RaySession._open:
                RaySession._connection = _connected()
            RaySession._open += 1
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the cluster, if it is ours and nobody else's. Idempotent."""
        with RaySession._lock:
            if not self._is_closed:
                self._is_closed = True
                RaySession._open -= 1
                if not RaySession._open:
                    RaySession._connection.close()

    def nodes(self) -> tuple[Node, ...]:
        """Those that are up now."""
        return tuple(
            Node(node["NodeID"], node["Resources"].get("CPU", 0.0), node["Resources"].get("GPU", 0.0))
            for node in _ray().nodes()
            if node["Alive"]
        )

    def start(self, kind: type, *values: Any, node: Node | None = None, gpu: bool = False, threads: int = 1) -> Actor:
        """An actor of this class, on this node, or where there is room for it: a GPU of its own, or a CPU. It takes
        `threads` calls at a time."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        where: Any = "SPREAD" if node is None else NodeAffinitySchedulingStrategy(node.id, soft=True)
        options = {
            "num_cpus": int(node is None and not gpu),
            "num_gpus": int(gpu),
            "max_restarts": -1,
            "max_task_retries": 0,  # what was lost is tried again by the crawl, which counts
            "max_concurrency": threads,
            "scheduling_strategy": where,
        }
        made: Any = None
        with suppress(TypeError, pickle.PicklingError):  # which says what it could not send, secrets included
            made = _ray().remote(kind).options(**options).remote(*values)
        if made is None:
            raise ConfigurationError(
                "the client cannot be sent to other machines: a generator or an option of it cannot be pickled",
                hint="runner: local, or a generator without locks, files and connections",
                code="RAY_PICKLE",
            )
        return Actor(made)


def check_installed() -> None:
    """Errors: ConfigurationError where Ray is not."""
    if find_spec("ray") is None:
        raise _missing()


def _connected() -> ExitStack:
    """To be closed."""
    address = os.environ.get("RAY_ADDRESS", "").strip()
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    ray = _ray()
    opened = ExitStack()
    if ray.is_initialized():
        return opened
    ours: dict[str, Any] = {}
    try:
        if address:
            _check_reachable(address)
        else:
            ours = {"include_dashboard": False, "_temp_dir": opened.enter_context(_folder())}
        ray.init(log_to_driver=False, logging_level=logging.CRITICAL, **ours)
    except Exception as error:
        opened.close()
        raise ConfigurationError(
            f"Ray does not start: {_first_line(error)}" if ours else f"no Ray is there: {_first_line(error)}",
            where=address or None,
            hint="runner: local needs none" if ours else "`ray status` shows it; without RAY_ADDRESS one is started",
            code="RAY_FAILED",
        ) from error
    opened.callback(ray.shutdown)
    # It prints what goes wrong in its workers on standard output, among our rows, and has no public switch for it.
    ray._private.worker._worker_logs_enabled = False
    return opened


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise _missing() from None
    return ray


def _missing() -> ConfigurationError:
    return ConfigurationError(
        "ray is not installed, which a cluster is made of", hint="pip install 'fetchly[ray]'", code="RAY_MISSING"
    )


def _folder() -> tempfile.TemporaryDirectory[str]:
    """Sockets lie in it, whose paths have 107 bytes at most: a user's own folder for such files may be too long."""
    folder = Path("/tmp" if os.access("/tmp", os.W_OK) else tempfile.gettempdir())
    for left in folder.glob(f"{_FOLDER}*"):  # by programs that were killed
        owner = left.name.removeprefix(_FOLDER).partition("-")[0]
        if owner.isdecimal() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(left, ignore_errors=True)
    return tempfile.TemporaryDirectory(prefix=f"{_FOLDER}{os.getpid()}-", dir=folder, ignore_cleanup_errors=True)


def _check_reachable(address: str) -> None:
    """Raises OSError. Ray itself tries for minutes."""
    host, _, port = address.rpartition(":")
    if host and "/" not in host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
