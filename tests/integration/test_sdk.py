"""The SDK over a scripted generator: what is asked, in which order, and what is left behind."""

import asyncio
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

import fetchly
from fetchly.errors import ConfigurationError, DocumentError, FetchError, Interrupted, RecordInvalid
from fetchly.extraction.generator import GenerationTask
from tests.support.browser import needs_browser
from tests.support.scripted_generator import ScriptedGenerator
from tests.support.site import Site, answer, redirect

PAGE = b"<html lang=en><title>Teapot</title><h1>Hazel teapot</h1><p>Only \xc2\xa348.50 today</p></html>"


class Teapot(BaseModel):
    name: str
    price: float | None


@dataclass
class Priced:
    price: float


def client(answer: Callable[[GenerationTask], str], **options: Any) -> fetchly.Client:
    return fetchly.Client(generator=ScriptedGenerator(answer), **options)


def teapot(task: GenerationTask) -> str:
    return '{"name": "Hazel teapot", "price": "£48.50"}'


def test_a_page_becomes_an_instance_of_the_callers_type_with_evidence() -> None:
    with client(teapot) as opened:
        result = opened.extract(PAGE, Teapot)
    assert result.record == Teapot(name="Hazel teapot", price=48.5)
    assert result.value == {"name": "Hazel teapot", "price": 48.5}
    assert result.evidence["/name"].text == "Hazel teapot"
    assert result.evidence["/price"].text == "Only £48.50 today"
    assert result.attempt == 1


def test_a_dataclass_a_dict_and_a_shipped_name_are_schemas_too(tmp_path: Path) -> None:
    with client(lambda task: '{"price": "£48.50"}') as opened:
        assert opened.extract(PAGE, Priced).record == Priced(48.5)
        schema = {"type": "object", "properties": {"price": {"type": "number"}}, "required": ["price"]}
        assert opened.extract(PAGE, schema).record == {"price": 48.5}
        file = tmp_path / "price.json"
        file.write_text(json.dumps(schema))
        assert opened.extract(PAGE, file).record == opened.extract(PAGE, str(file)).record == {"price": 48.5}


def test_a_file_is_read_and_its_url_reported(tmp_path: Path) -> None:
    page = tmp_path / "teapot.html"
    page.write_bytes(PAGE)
    with client(teapot) as opened:
        result = opened.extract(str(page), Teapot)
    assert result.url is not None
    assert result.url.startswith("file:")


class Named:
    """A path object of someone else's making."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)


def test_a_path_object_is_a_file_wherever_a_target_is_taken(tmp_path: Path) -> None:
    page = tmp_path / "teapot.html"
    page.write_bytes(PAGE)

    async def both() -> list[Any]:
        async with fetchly.AsyncClient(generator=ScriptedGenerator(teapot)) as opened:
            read = (opened.document(page), *(opened.extract(each, Teapot) for each in (page, Named(page))))
            return list(await asyncio.gather(*read))

    with client(teapot) as opened:
        found = [opened.extract(page, Teapot), opened.extract(Named(page), Teapot), opened.document(page)]
        assert "Hazel teapot" in opened.show_document(page, Teapot)
    found += asyncio.run(both())
    found.append(fetchly.extract(page, Teapot, generator=ScriptedGenerator(teapot)))
    found.append(asyncio.run(fetchly.aextract(page, Teapot, generator=ScriptedGenerator(teapot))))
    assert {result.url for result in found} == {page.as_uri()}


@pytest.mark.parametrize("name", ["-", "https:", "mailto:x", "example.org"])
def test_a_path_object_is_a_file_whatever_its_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with client(teapot) as opened:
        with pytest.raises(FetchError) as caught:
            opened.extract(Path(name), Teapot)
        assert caught.value.code == "FILE_MISSING"
        Path(name).write_bytes(PAGE)
        assert opened.extract(Path(name), Teapot).record.name == "Hazel teapot"


def test_options_of_a_call_override_those_of_the_client() -> None:
    generator = ScriptedGenerator(teapot)
    with fetchly.Client(generator=generator, temperature=0.2, seed=4) as opened:
        opened.extract(PAGE, Teapot)
        opened.extract(PAGE, Teapot, temperature=0.9, draft=())
    assert [(task.temperature, task.seed, task.draft) for task in generator.tasks] == [
        (0.2, 4, ("auto",)),
        (0.9, 4, ()),
    ]


def test_an_unknown_option_is_an_error_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="temprature") as caught:
        client(teapot, temprature=0.2)
    assert "temperature" in caught.value.line()


@pytest.mark.parametrize("body", [b"", b"   \n", b"<html><body><script>let a = 1</script></body></html>"])
def test_an_empty_page_never_reaches_the_generator(body: bytes) -> None:
    generator = ScriptedGenerator(teapot)
    with fetchly.Client(generator=generator) as opened, pytest.raises(DocumentError):
        opened.extract(body, Teapot)
    assert generator.tasks == []


def test_a_missing_page_is_said_before_the_generator_is_asked_for_anything_costly() -> None:
    generator = ScriptedGenerator(teapot)
    with fetchly.Client(generator=generator) as opened, pytest.raises(FetchError):
        opened.extract("missing.html", Teapot)
    assert generator.prepared == []


def test_a_required_value_that_the_page_does_not_say_is_an_error_with_its_pointer() -> None:
    with client(lambda task: '{"name": null, "price": null}') as opened, pytest.raises(RecordInvalid) as caught:
        opened.extract(PAGE, Teapot, attempts=2)
    assert caught.value.pointer == "/name"
    assert caught.value.exit_code == 4


def test_closing_closes_the_generator() -> None:
    generator = ScriptedGenerator(teapot)
    with fetchly.Client(generator=generator) as opened:
        opened.extract(PAGE, Teapot)
    assert generator.closed


def test_extract_works_inside_a_running_event_loop() -> None:
    async def inside() -> Any:
        return fetchly.extract(PAGE, Teapot, generator=ScriptedGenerator(teapot)).record

    assert asyncio.run(inside()) == Teapot(name="Hazel teapot", price=48.5)


def test_the_async_client_reads_pages_side_by_side_and_leaves_no_thread() -> None:
    before = threading.active_count()

    async def several() -> list[Any]:
        async with fetchly.AsyncClient(generator=ScriptedGenerator(teapot), concurrency=3) as opened:
            return list(await asyncio.gather(*(opened.extract(PAGE, Teapot) for _ in range(5))))

    results = asyncio.run(several())
    assert [result.record.price for result in results] == [48.5] * 5
    assert threading.active_count() == before


def test_aextract_is_the_one_page_form() -> None:
    result = asyncio.run(fetchly.aextract(PAGE, Teapot, generator=ScriptedGenerator(teapot)))
    assert result.record.name == "Hazel teapot"


def test_a_cancelled_call_stops_the_work_before_the_cancellation_is_passed_on() -> None:
    started = threading.Event()
    stopped = threading.Event()

    def waits(task: GenerationTask) -> str:
        started.set()
        for _ in range(1000):
            assert task.should_stop is not None
            if task.should_stop():
                stopped.set()
                raise Interrupted("stopped")
            threading.Event().wait(0.01)
        return teapot(task)

    async def cancelled() -> None:
        async with fetchly.AsyncClient(generator=ScriptedGenerator(waits)) as opened:
            work = asyncio.create_task(opened.extract(PAGE, Teapot))
            while not started.is_set():
                await asyncio.sleep(0.01)
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            assert stopped.is_set()

    asyncio.run(cancelled())


def test_the_public_names_are_there_and_no_others() -> None:
    for name in fetchly.__all__:
        assert getattr(fetchly, name) is not None
    with pytest.raises(AttributeError):
        fetchly.nothing  # noqa: B018


@pytest.mark.parametrize(
    "options",
    [
        {"schema_mode": "x"},
        {"verbatim": "x"},
        {"temperature": "x"},
        {"budget": "a"},
        {"max_tokens": 1.5},
        {"seed": -1},
        {"attempts": True},
    ],
)
def test_an_option_that_makes_no_sense_is_a_configuration_error(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        client(teapot, **options)


@pytest.mark.parametrize("options", [{"model": 5}, {"timeout": "a"}])
def test_so_are_arguments_of_the_client(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        fetchly.Client(**options)


@pytest.mark.parametrize("target", [123, None, ["a"]])
def test_a_target_is_text_bytes_or_a_page(target: Any) -> None:
    with client(teapot) as opened, pytest.raises(ConfigurationError, match="target"):
        opened.extract(target, Teapot)


def test_a_closed_client_refuses() -> None:
    opened = client(teapot)
    opened.close()
    opened.close()
    with pytest.raises(ConfigurationError, match="closed"):
        opened.extract(PAGE, Teapot)

    async def after_close() -> None:
        later = fetchly.AsyncClient(generator=ScriptedGenerator(teapot))
        await later.close()
        with pytest.raises(ConfigurationError, match="closed"):
            await later.extract(PAGE, Teapot)

    asyncio.run(after_close())


class Fragile(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def fails(cls, value: str) -> str:
        raise KeyError(value)


def test_a_validator_that_fails_in_its_own_way_is_a_refused_record() -> None:
    with client(lambda task: '{"name": "Hazel teapot"}') as opened, pytest.raises(RecordInvalid, match="KeyError"):
        opened.extract(PAGE, Fragile)


def test_what_was_fetched_is_told_with_the_record(tmp_path: Path) -> None:
    with Site() as site, client(teapot, allow_private=True) as opened:
        site.routes |= {"/a": redirect("/b"), "/b": answer(PAGE, status="203 Other")}
        result = opened.extract(site.url("/a"), Teapot)
    assert (result.url, result.status, result.redirects) == (site.url("/b"), 203, (site.url("/a"),))
    assert result.rendered is False
    assert result.stats.fetch_ms > 0
    assert result.stats.read_ms > 0
    with client(teapot) as opened:
        assert opened.extract(PAGE, Teapot).status is None


SHELL = (
    b"<title>Shop</title><div id=root></div><script src=/app.js></script><script>setTimeout(() => root.innerHTML ="
    b"'<h1>Hazel teapot</h1><p>Only \\u00a348.50 today</p>', 50)</script>"
)


@needs_browser
def test_auto_renders_a_page_that_is_empty_without_and_no_other() -> None:
    with Site() as site, client(teapot, allow_private=True) as opened:
        site.routes |= {"/shell": answer(SHELL), "/app.js": answer(b"", content_type="text/javascript")}
        site.routes["/page"] = answer(PAGE + b"<p>" + b"More words. " * 50 + b"<script src=/app.js></script>")
        result = opened.extract(site.url("/shell"), Teapot)
        assert (result.rendered, result.url, result.warnings) == (True, site.url("/shell"), ())
        assert result.evidence["/name"].text == "Hazel teapot"
        assert [visit.path for visit in site.visits].count("/shell") == 1
        assert opened.extract(site.url("/page"), Teapot).rendered is False


@needs_browser
def test_auto_runs_the_smallest_script_where_there_is_no_text() -> None:
    scripts = [
        b"document.write('<h1>Hazel teapot</h1><p>Only &pound;48.50 today</p>')",
        b"document.body.append('Hazel teapot, only \\u00a348.50 today')",
    ]
    with Site() as site, client(teapot, allow_private=True) as opened:
        for number, script in enumerate(scripts):
            site.routes[f"/{number}"] = answer(b"<body><script>" + script + b"</script>")
            result = opened.extract(site.url(f"/{number}"), Teapot)
            assert result.rendered
            assert result.evidence["/name"].text.startswith("Hazel teapot")


@needs_browser
def test_always_renders_files_and_bytes_too_and_never_nothing(tmp_path: Path) -> None:
    file = tmp_path / "shell.html"
    file.write_bytes(SHELL)
    with client(teapot, render="always") as opened:
        for target in (str(file), SHELL):
            result = opened.extract(target, Teapot)
            assert result.rendered
            assert result.evidence["/name"].text == "Hazel teapot"
        assert "Hazel teapot" in opened.show_document(str(file), Teapot)
    with client(teapot, render="never", allow_private=True) as opened, Site(routes={"/": answer(SHELL)}) as site:
        with pytest.raises((DocumentError, RecordInvalid)):
            opened.extract(site.url(), Teapot)
        assert [visit.path for visit in site.visits] == ["/"]


def test_without_a_browser_auto_says_so_and_always_fails() -> None:
    empty = b"<div id=root></div><script src=/app.js></script>"
    with Site(
        routes={"/empty": answer(empty), "/little": answer(empty + b"<h1>Hazel teapot</h1><p>\xc2\xa348.50")}
    ) as site:
        with client(teapot, allow_private=True, browser_path="/nowhere/chromium") as opened:
            result = opened.extract(site.url("/little"), Teapot)
            assert not result.rendered
            assert "no browser" in result.warnings[0]
            with pytest.raises(DocumentError) as failed:
                opened.extract(site.url("/empty"), Teapot)
            assert failed.value.code == "DOCUMENT_EMPTY"
            assert "no such program" in failed.value.line()
        with client(teapot, allow_private=True, render="always", browser_path="/nowhere/chromium") as opened:
            with pytest.raises(ConfigurationError) as missing:
                opened.extract(site.url("/little"), Teapot)
            assert missing.value.code == "BROWSER_MISSING"


def test_a_local_page_is_never_rendered_unasked(tmp_path: Path) -> None:
    generator = ScriptedGenerator(teapot)
    with fetchly.Client(generator=generator, browser_path="/nowhere/chromium") as opened:
        with pytest.raises(DocumentError) as failed:
            opened.extract(SHELL.replace(b"<title>Shop</title>", b""), Teapot)
        assert "chromium" not in failed.value.line()


def test_a_mode_that_does_not_exist_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="render"):
        client(teapot, render="sometimes")


@needs_browser
def test_a_cancelled_call_stops_a_rendering_too() -> None:
    async def cancelled(site: Site) -> None:
        async with fetchly.AsyncClient(
            generator=ScriptedGenerator(teapot), allow_private=True, render="always"
        ) as opened:
            work = asyncio.create_task(opened.extract(site.url(), Teapot))
            while not site.visits:
                await asyncio.sleep(0.01)
            start = time.monotonic()
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            assert time.monotonic() - start < 10

    with Site(routes={"/": lambda visit: visit.stopped.wait(15)}) as site:  # type: ignore[dict-item]
        asyncio.run(cancelled(site))
