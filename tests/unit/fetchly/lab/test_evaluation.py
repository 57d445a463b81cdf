import itertools
from pathlib import Path

import pytest

from fetchly.document.reader import read_document
from fetchly.errors import ExtractionError, Interrupted, SchemaError
from fetchly.extraction.extractor import ExtractionOptions
from fetchly.extraction.generator import GenerationTask, SchemaMode, SchemaNotice
from fetchly.lab import evaluation as room
from fetchly.lab.assessment import Assessment, assess, is_valid
from fetchly.lab.dataset import Dataset
from fetchly.lab.evaluation import Evaluation
from fetchly.lab.predictions import Prediction
from fetchly.lab.reading import SetReader
from tests.support.scripted_generator import ScriptedGenerator
from tests.support.tiny_dataset import SCHEMA, answer, build

OPTIONS = ExtractionOptions(attempts=1, verbatim="auto")


def script(task: GenerationTask) -> str:
    return answer(task.prompt.page)


def predicted(tmp_path: Path, generator: ScriptedGenerator, timeout_s: float | None = None) -> dict[str, Prediction]:
    dataset = Dataset.open(build(tmp_path / "notices"))
    evaluation = Evaluation(generator, SetReader(read_document), OPTIONS, timeout_s)
    evaluation.prepare([dataset])
    return {record.id: evaluation.predict(dataset, record) for record in dataset.records()}


def test_every_page_gets_a_prediction_and_a_page_without_text_an_error(tmp_path: Path) -> None:
    generator = ScriptedGenerator(script)
    predictions = predicted(tmp_path, generator)
    assert predictions["ferry"].record == {
        "title": "The ferry runs again",
        "published_date": "3 May 2021",
        "price": 2.5,
        "topics": ["River"],
    }
    assert predictions["ferry"].stats["output_tokens"] > 0
    assert predictions["empty"].record is None
    assert predictions["empty"].code == "DOCUMENT_EMPTY"
    assert len(generator.tasks) == 3
    assert len(generator.prepared) == 1


@pytest.mark.parametrize(
    "failure", [ExtractionError("out of luck", code="BAD_LUCK"), ZeroDivisionError("ours"), RecursionError()]
)
def test_whatever_one_page_does_the_next_one_is_tried(tmp_path: Path, failure: Exception) -> None:
    def fails_on_the_ferry(task: GenerationTask) -> str:
        if "ferry" in task.prompt.page:
            raise failure
        return script(task)

    predictions = predicted(tmp_path, ScriptedGenerator(fails_on_the_ferry))
    assert predictions["ferry"].code == getattr(failure, "code", "INTERNAL")
    assert predictions["ferry"].error
    assert predictions["bridge"].record is not None


def test_a_record_that_the_schema_refuses_is_a_failure(tmp_path: Path) -> None:
    predictions = predicted(tmp_path, ScriptedGenerator(lambda task: '{"title": "The ferry runs again"}'))
    assert predictions["ferry"].code == "RECORD_INVALID"


def test_a_page_has_its_own_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(room.time, "monotonic", lambda: float(next(ticks)))

    def slow_on_the_ferry(task: GenerationTask) -> str:
        assert task.should_stop is not None
        for _ in range(1000 if "ferry" in task.prompt.page else 1):
            if task.should_stop():
                raise Interrupted("stopped")
        return script(task)

    predictions = predicted(tmp_path, ScriptedGenerator(slow_on_the_ferry), timeout_s=50)
    assert predictions["ferry"].code == "PAGE_TIMEOUT"
    assert predictions["ferry"].error == "not done after 50 s"
    assert predictions["bridge"].error is None


def test_a_stop_by_the_user_is_no_failure_of_a_page(tmp_path: Path) -> None:
    def stopped(task: GenerationTask) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        predicted(tmp_path, ScriptedGenerator(stopped))


def test_a_schema_that_is_refused_is_said_before_the_first_page(tmp_path: Path) -> None:
    class Refusing(ScriptedGenerator):
        def check_schema(self, user_schema: object, mode: SchemaMode) -> tuple[SchemaNotice, ...]:
            raise SchemaError("not this one")

    generator = Refusing(script)
    with pytest.raises(SchemaError):
        predicted(tmp_path, generator)
    assert generator.tasks == []


def assessed(tmp_path: Path, page: str, record: object) -> Assessment:
    dataset = Dataset.open(build(tmp_path / "notices"))
    gold = next(gold for gold in dataset.records() if gold.id == page)
    return assess(dataset, gold, Prediction("notices", page, record, None, 1.0))


def test_an_assessment_counts_checks_and_looks_for_the_texts(tmp_path: Path) -> None:
    right = {
        "title": "The ferry runs again",
        "published_date": "2021-05-03",
        "price": 2.5,
        "topics": ["River", "Traffic"],
    }
    assert assessed(tmp_path, "ferry", right).exact
    off = assessed(tmp_path, "ferry", {**right, "title": "hidden secret", "topics": ["River", "Sea"]})
    assert not off.exact
    assert off.valid
    assert (off.texts.texts, off.texts.invented) == (3, 2)
    assert not assessed(tmp_path, "ferry", {**right, "price": "free"}).valid
    assert assessed(tmp_path, "ferry", None).valid is None


def test_validity_is_asked_of_another_library_formats_included() -> None:
    assert is_valid({"title": None, "published_date": None, "price": 1, "topics": None}, SCHEMA)
    assert not is_valid({"title": None}, SCHEMA)
    assert not is_valid("31 March", {"type": "string", "format": "date"})
