"""Pages that bring their reader down, for real: the program goes on, nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from fetchly.document import process, worker
from fetchly.document.reader import ReadOptions, read_document
from fetchly.document.worker import DocumentReader
from fetchly.errors import ConfigurationError, DocumentError
from fetchly.goods import Page

# A reading process whose parser gives in to what a page says.
GIVES_IN = """
import sys
sys.path[:] = sys.argv[3:]
import ctypes, os, time
from fetchly.document import child
honest = child.read_document
poisoned = False

def read_document(page, options):
    global poisoned
    if poisoned or b"segfault" in page.body:
        ctypes.string_at(0)
    if b"hang" in page.body:
        time.sleep(60)
    if b"hunger" in page.body:
        hoard = [bytes(1 << 20) for _ in range(1 << 14)]
    if b"a bug" in page.body:
        raise KeyError("tag")
    if b"exit" in page.body:
        os._exit(3)
    if b"chatter" in page.body:
        print("noise", flush=True)
        os.write(1, b"noise")
        os.write(2, b"noise" * 100_000)
    poisoned = b"poison" in page.body
    return honest(page, options)

child.read_document = read_document
child.serve(memory_bytes=int(sys.argv[1]), seconds=float(sys.argv[2]))
"""


def page(body: str | bytes) -> Page:
    data = body.encode() if isinstance(body, str) else body
    return Page("-", "https://h/", 200, (), data, media_type="text/html")


@pytest.fixture
def weak(monkeypatch: pytest.MonkeyPatch) -> Iterator[DocumentReader]:
    monkeypatch.setattr(process, "_BOOT", GIVES_IN)
    with DocumentReader(timeout_s=5, memory_bytes=512 * 1024**2) as reader:
        yield reader


@pytest.fixture(autouse=True)
def _nothing_is_left_behind() -> Iterator[None]:
    descriptors = set(os.listdir("/proc/self/fd"))
    yield
    assert psutil.Process().children() == []
    assert set(os.listdir("/proc/self/fd")) <= descriptors


def children() -> list[int]:
    return [process.pid for process in psutil.Process().children()]


def failure(reader: DocumentReader, body: str | bytes) -> DocumentError:
    with pytest.raises(DocumentError) as failed:
        reader.read(page(body))
    assert failed.value.where == "https://h/"
    assert "\n" not in failed.value.line()
    return failed.value


def test_a_child_reads_what_we_would_read() -> None:
    golden = Path(__file__).parents[3] / "golden" / "documents" / "shop.html"
    with DocumentReader() as reader:
        assert children() == []  # not before it is needed
        for options in (ReadOptions(), ReadOptions(link_marks=True, keep_hidden=True, structured=False)):
            assert reader.read(page(golden.read_bytes()), options) == read_document(page(golden.read_bytes()), options)
        assert len(children()) == 1


@pytest.mark.parametrize("body", [b"", b"%PDF-1.7", b"<div></div>", b"<div>" * 400_000])
def test_an_error_of_the_reader_comes_back_whole(body: bytes) -> None:
    with pytest.raises(DocumentError) as here:
        read_document(page(body))
    with DocumentReader() as reader:
        there = failure(reader, body)
        for name in ("message", "where", "hint", "code", "retryable", "args"):
            assert getattr(there, name) == getattr(here.value, name)
        (first,) = children()
        reader.read(page("<p>x"))
        assert children() == [first]  # a page that cannot be read costs no process


def test_a_crash_is_the_end_of_the_child_alone(weak: DocumentReader) -> None:
    weak.read(page("<p>x"))
    (first,) = children()
    error = failure(weak, "<p>segfault")
    assert error.code == "PARSER_CRASHED"
    assert "SIGSEGV" in error.message
    assert weak.read(page("<p>fine")).text == "fine"
    assert first not in children()
    assert "status 3" in failure(weak, "<p>exit").message


def test_a_crash_is_not_blamed_on_the_page_after(weak: DocumentReader) -> None:
    assert weak.read(page("<p>poison")).text == "poison"
    assert weak.read(page("<p>innocent")).text == "innocent"


def test_a_hang_ends_at_the_deadline(weak: DocumentReader) -> None:
    weak.timeout_s = 0.3
    error = failure(weak, "<p>hang")
    assert error.code == "PARSER_TIMEOUT"
    assert "0.3 s" in error.message
    assert children() == []
    weak.timeout_s = 5
    assert weak.read(page("<p>fine")).text == "fine"


def test_a_tag_that_holds_the_parser_up_for_hours_ends_at_the_deadline() -> None:
    body = "<p " + " ".join(f"a{i}" for i in range(300_000)) + ">x"
    with DocumentReader(timeout_s=0.5) as reader:
        assert failure(reader, body).code == "PARSER_TIMEOUT"


def test_memory_is_bounded(weak: DocumentReader) -> None:
    assert failure(weak, "<p>hunger").code == "PARSER_MEMORY"
    assert weak.read(page("<p>fine")).text == "fine"


def test_a_parser_without_memory_is_no_crash() -> None:
    with DocumentReader(memory_bytes=150 * 1024**2) as reader:
        assert failure(reader, "<p>A line of <b>text</b></p>" * 200_000).code == "PARSER_MEMORY"
        assert reader.read(page("<p>fine")).text == "fine"


def test_a_bug_of_ours_costs_one_page(weak: DocumentReader) -> None:
    error = failure(weak, "<p>a bug")
    assert error.code == "PARSER_CRASHED"
    assert "KeyError: 'tag'" in error.message
    assert weak.read(page("<p>fine")).text == "fine"


def test_chatter_breaks_no_frame(weak: DocumentReader) -> None:
    assert weak.read(page("<p>chatter")).text == "chatter"


def test_a_child_that_does_not_listen_ends_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_BOOT", "import os, time; os.write(1, b'ready\\n'); time.sleep(60)")
    with DocumentReader(timeout_s=0.3) as reader:
        assert failure(reader, b"<p>" * 5_000_000).code == "PARSER_TIMEOUT"  # more than a pipe holds


@pytest.mark.parametrize("answer", ["b'\\0\\0\\0\\2[]'", "b'\\xff\\xff\\xff\\xff'", "b'\\0\\0\\0\\0'"])
def test_a_garbled_answer_is_refused(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = f"import os; os.write(1, b'ready\\n'); os.read(0, 10); os.write(1, {answer}); os.read(0, 10**6); input()"
    monkeypatch.setattr(process, "_BOOT", program)
    with DocumentReader(timeout_s=5) as reader:
        error = failure(reader, "<p>x")
    assert error.code == "PARSER_CRASHED"
    assert "garbled" in error.message


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import no_such_module_anywhere", "No module named 'no_such_module_anywhere'"),
        ("raise SystemExit(4)", "ended at once"),
        ("print('hello there')", "make no sense"),
    ],
)
def test_a_child_that_does_not_start_says_why(program: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_BOOT", program)
    with DocumentReader() as reader:
        error = failure(reader, "<p>x")
    assert error.code == "PARSER_UNAVAILABLE"
    assert words in error.message


def test_no_python_no_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with DocumentReader() as reader:
        error = failure(reader, "<p>x")
    assert error.code == "PARSER_UNAVAILABLE"
    assert "/nowhere/python" in error.line()


def test_threads_read_side_by_side(weak: DocumentReader) -> None:
    bodies = [f"<p>page {i}" for i in range(40)]
    bodies[::10] = ["<p>segfault"] * 4
    with DocumentReader(workers=2) as reader, ThreadPoolExecutor(8) as threads:

        def text(body: str) -> str:
            try:
                return reader.read(page(body)).text
            except DocumentError as error:
                return error.code

        texts = list(threads.map(text, bodies))
        assert len(children()) <= 2
    assert texts == [body[3:] if "page" in body else "PARSER_CRASHED" for body in bodies]


def test_two_workers_are_two_processes(weak: DocumentReader) -> None:
    weak.close()
    with DocumentReader(workers=2, timeout_s=1) as reader, ThreadPoolExecutor(2) as threads:
        slow = threads.submit(reader.read, page("<p>hang"))
        assert reader.read(page("<p>fine")).text == "fine"  # the other one is not waited for
        assert not slow.done()
        assert isinstance(slow.exception(), DocumentError)


def test_close_ends_a_read_in_progress(weak: DocumentReader) -> None:
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(weak.read, page("<p>hang"))
        end = time.monotonic() + 5
        while not children() and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.3)
        weak.close()
        assert children() == []
        assert isinstance(running.exception(timeout=5), ConfigurationError)
    weak.close()
    with pytest.raises(ConfigurationError, match="closed"):
        weak.read(page("<p>x"))


def test_a_child_that_died_at_rest_is_replaced() -> None:
    with DocumentReader() as reader:
        reader.read(page("<p>x"))
        (first,) = children()
        os.kill(first, signal.SIGKILL)
        psutil.Process(first).wait(5)
        assert reader.read(page("<p>fine")).text == "fine"


def test_a_child_is_replaced_after_a_large_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "LARGE_PAGE", 100)
    with DocumentReader() as reader:
        reader.read(page("<p>x"))
        (first,) = children()
        reader.read(page("<p>x" + " " * 100))
        assert children() == []
        assert first not in children()


def test_a_terminal_s_ctrl_c_is_not_the_childs() -> None:
    with DocumentReader() as reader:
        reader.read(page("<p>x"))
        (first,) = children()
        assert os.getsid(first) != os.getsid(0)
        os.kill(first, signal.SIGINT)
        reader.read(page("<p>x"))
        assert children() == [first]


def test_an_interrupted_read_leaves_no_answer_for_the_next(weak: DocumentReader) -> None:
    class Stopped(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stopped

    weak.read(page("<p>x"))  # the child is there: the alarm does not meet its start, however slow that is
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.4)
        with pytest.raises(Stopped):
            weak.read(page("<p>hang"))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert weak.read(page("<p>fine")).text == "fine"


def test_nothing_is_imported_from_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("json", "selectolax", "struct", "fetchly"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the current directory')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    with DocumentReader() as reader:
        assert reader.read(page("<p>fine")).text == "fine"


def test_no_descriptor_is_inherited(tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w") as file, DocumentReader() as reader:
        os.set_inheritable(file.fileno(), True)
        reader.read(page("<p>x"))
        (child,) = children()
        targets = {os.readlink(entry) for entry in Path(f"/proc/{child}/fd").iterdir()}
        assert all(target.startswith("pipe:") or target == "/dev/null" for target in targets)


def test_it_reads_inside_an_event_loop() -> None:
    async def read() -> str:
        with DocumentReader() as reader:
            return reader.read(page("<p>fine")).text

    assert asyncio.run(read()) == "fine"


@pytest.mark.parametrize("values", [{"workers": 0}, {"timeout_s": 0}, {"memory_bytes": -1}])
def test_its_arguments_are_checked(values: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError):
        DocumentReader(**values)


def test_closing_from_a_thread_that_never_read() -> None:
    reader = DocumentReader()
    reader.read(page("<p>x"))
    thread = threading.Thread(target=reader.close)
    thread.start()
    thread.join()
    assert children() == []
    reader.close()
