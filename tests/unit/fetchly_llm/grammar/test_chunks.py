from __future__ import annotations

import pytest

from fetchly_llm.grammar.chunks import chunks


def pieces(text: str) -> list[str]:
    return [text[chunk.start : chunk.end] for chunk in chunks(text)]


# Most of them stand on real pages: prices, thousands, clock times with a dot, addresses, versions, telephone numbers.
@pytest.mark.parametrize(
    "number",
    [
        "12.5",
        "24,5",
        "0.75",
        "08.30",
        "1.299,00",
        "1,299.00",
        "1,495,000",
        "1.250.000",
        "35,179,505",
        "1'299.00",
        "1’299",
        "12,34,567.00",
        "519\u00a0000",
        "1\u202f299,00",
        "192.168.0.1",
        "13.2.3",
        "303.294.73",
        "310.566.0858",
        ".564",
        "１，２９９",
        "١٢٫٥",
        "๕๐.๕",
    ],
)
def test_a_number_with_separators_is_one_chunk(number: str) -> None:
    assert pieces(number) == [number]
    assert pieces(f"x {number} €") == ["x", " ", number, " ", "€"]
    assert pieces(f"({number})") == ["(", number, ")"]
    assert pieces(f"{number}, {number}; costs -{number}/kg") == (
        [number, ",", " ", number, ";", " ", "costs", " ", "-", number, "/", "kg"]
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,2,3", ["1", ",", "2", ",", "3"]),
        ("1.5,2.5", ["1.5", ",", "2.5"]),
        ("51.484884,3.954002", ["51.484884", ",", "3.954002"]),
        ("2019,2020,2021", ["2019", ",", "2020", ",", "2021"]),
        ("12:30", ["12", ":", "30"]),
        ("3/4", ["3", "/", "4"]),
        ("4.5/5", ["4.5", "/", "5"]),
        ("10-12", ["10", "-", "12"]),
        ("2024-03-05", ["2024", "-", "03", "-", "05"]),
        ("22.08.2024", ["22", ".", "08", ".", "2024"]),
        ("1.2.24", ["1", ".", "2", ".", "24"]),
        ("2020.10.07", ["2020", ".", "10", ".", "07"]),
        ("5'10", ["5", "'", "10"]),
        ("10\u00a012", ["10", "\u00a0", "12"]),
        ("15 999 €", ["15", " ", "999", " ", "€"]),
        ("No.5", ["No", ".", "5"]),
        ("5. Mai", ["5", ".", " ", "Mai"]),
        ("12.5.", ["12.5", "."]),
        (",5", [",", "5"]),
        ("...5", [".", ".", ".", "5"]),
    ],
)
def test_what_separates_values_is_a_chunk_of_its_own(text: str, expected: list[str]) -> None:
    assert pieces(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$12", ["$", "12"]),
        ("$.99", ["$", ".99"]),
        ("-5", ["-", "5"]),
        ("−.5", ["−", ".5"]),
        ("+3.5", ["+", "3.5"]),
        ("EUR209.99", ["EUR", "209.99"]),
        ("19.3g39%", ["19.3", "g39", "%"]),
        ("25,500Infinix", ["25,500", "Infinix"]),
        ("rest303.294.73 V", ["rest", "303.294.73", " ", "V"]),
        ("v1.2.3", ["v", "1.2.3"]),
        ("B07XYZ E27 5kg", ["B07XYZ", " ", "E27", " ", "5kg"]),
        ("1.299円", ["1.299", "円"]),
        ("1.5\u0301 x", ["1.5\u0301", " ", "x"]),
    ],
)
def test_signs_and_letters_that_touch_a_number_are_apart(text: str, expected: list[str]) -> None:
    assert pieces(text) == expected


def test_white_space_is_told_apart_from_what_a_span_may_begin_with() -> None:
    assert [chunk.is_space for chunk in chunks("a\u00a01\u00a0000\n.")] == [False, True, False, True, False]
