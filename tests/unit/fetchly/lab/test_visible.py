import pytest

from fetchly.lab.visible import check_texts, visible_text

SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": ["string", "null"]},
        "price": {"type": ["string", "null"]},
        "state": {"enum": ["Open", "Closed"]},
        "parts": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
    },
}


def test_texts_are_looked_for_and_choices_and_numbers_are_not() -> None:
    page = "<title>Hot &amp; Cold</title><p>½ <b>cup</b><script>Secret</script>".encode()
    record = {
        "title": "hot & cold",
        "price": "12.00",
        "state": "Open",
        "parts": [{"name": "1/2 cup"}, {"name": "Secret"}],
    }
    check = check_texts(record, SCHEMA, page)
    assert (check.texts, check.invented) == (3, 1)
    assert check.rate == pytest.approx(1 / 3)


def test_a_record_without_texts_invents_nothing() -> None:
    assert check_texts({"title": None, "parts": []}, SCHEMA, b"").rate == 0.0


@pytest.mark.parametrize(
    "page", [b"<![odd[ x ]]><p>seen", b"<!doctype html><![if ie]><p>seen</p>", b"<p>seen<!-- open", b"<p>seen<"]
)
def test_broken_markup_hides_nothing(page: bytes) -> None:
    assert "seen" in visible_text(page)
