"""Requests on standard input, answers on standard output: the program of a reading process (see worker.py)."""

from __future__ import annotations

import gc
import os
import signal
from typing import BinaryIO, NoReturn

from fetchly.document.frames import (
    REQUEST_HEAD,
    Answer,
    Failure,
    Request,
    pack_answer,
    unpack_request,
)
from fetchly.document.reader import read_document
from fetchly.errors import DocumentError

READY = b"ready\n"
OUT_OF_MEMORY = 77  # the exit status; to say it in a frame would take memory


def serve(*, memory_bytes: int, seconds: float) -> NoReturn:
    """Answer until the pipe closes: then the parent is gone, or wants no more.

    `memory_bytes` bounds the address space. A page that takes more than `seconds` of wall time ends this process, in
    case nobody is left to do it: where the parser hangs, no closed pipe is noticed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the parent's to answer
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _bound(memory_bytes)
    gc.disable()  # a tree of a million elements is walked again and again for garbage that comes when it is dropped
    gc.freeze()
    requests = os.fdopen(os.dup(0), "rb", buffering=0)
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):  # a stray print must not break a frame
        os.dup2(nothing, standard)
    _write(answers, READY)
    try:
        while True:
            said_bytes, body_bytes = REQUEST_HEAD.unpack(_read(requests, REQUEST_HEAD.size))
            signal.setitimer(signal.ITIMER_REAL, seconds)
            _write(answers, _answer(unpack_request(_read(requests, said_bytes), _read(requests, body_bytes))))
            signal.setitimer(signal.ITIMER_REAL, 0)
            gc.collect()
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except BrokenPipeError:
        os._exit(0)


def _answer(request: Request) -> bytes:
    answer: Answer
    try:
        answer = read_document(request.page, request.options)
    except DocumentError as error:
        answer = error
    except MemoryError:
        raise
    except Exception as error:
        answer = Failure(f"{type(error).__name__}: {error}"[:500])
    return pack_answer(answer)


def _bound(memory_bytes: int) -> None:
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_AS)
    bound = memory_bytes if most == resource.RLIM_INFINITY else min(memory_bytes, most)
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _read(stream: BinaryIO, wanted: int) -> bytes:
    data = bytearray()
    while len(data) < wanted:
        part = stream.read(min(wanted - len(data), 1 << 20))
        if not part:
            os._exit(0)  # at once: there is nothing to tidy, and a large heap takes long to take down
        data += part
    return bytes(data)


def _write(stream: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[stream.write(view) :]
