import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetchly_llm.speculation.line_ends import LineEnds
from fetchly_llm.speculation.lookup import LONGEST, LookupSource

SPELLINGS = [
    b"", b" ", b"\n", b"-", b'"', b'",', b'"],', b'"}', b' "', b'":', b'{"', b' ["',
    b"tea", b" tea", b"pot", b" pot", b".", b'.",', b"cup", b" cup", b"name", b" blue",
]  # fmt: skip
ID = {spelling: token for token, spelling in enumerate(SPELLINGS)}
PLAIN = tuple(range(100))


def ids(*spellings: str) -> list[int]:
    return [ID[spelling.encode()] for spelling in spellings]


def best(source: LookupSource, path: list[int]) -> bytes:
    candidates = sorted(source.propose(path), key=lambda candidate: -candidate.probability)
    return SPELLINGS[candidates[0].token]


def test_the_continuation_of_the_longest_match_comes_first() -> None:
    source = LookupSource([1, 2, 3, 4, 9, 2, 3, 5, 9, 1, 2, 3], PLAIN)
    proposed = source.propose([])
    assert [candidate.token for candidate in proposed] == [4, 5]
    assert proposed[0].probability > proposed[1].probability
    assert proposed[0].grade != proposed[1].grade


def test_the_more_frequent_of_equally_long_matches_comes_first_then_the_latest() -> None:
    assert LookupSource([1, 4, 2, 1, 5, 3, 1, 4, 6, 1], PLAIN).propose([])[0].token == 4
    assert LookupSource([1, 4, 1, 5, 1], PLAIN).propose([])[0].token == 5


def test_a_path_is_part_of_the_context() -> None:
    source = LookupSource([1, 2, 3, 4, 5, 6], PLAIN)
    assert source.propose([2])[0].token == 3
    assert source.propose([9, 8, 2, 3])[0].token == 4
    assert source.propose([77]) == ()


def test_output_is_copied_as_soon_as_it_is_written() -> None:
    source = LookupSource([1, 2], PLAIN)
    assert source.propose([]) == ()
    source.extend([3, 1, 2])
    assert source.propose([])[0].token == 3


def test_an_empty_text_proposes_nothing() -> None:
    assert LookupSource([], PLAIN).propose([]) == ()
    assert LookupSource([], PLAIN).propose([4]) == ()


def naive(text: list[int]) -> set[int]:
    """Tokens that follow an occurrence of the text's end, of the greatest length that occurs (up to LONGEST)."""
    for length in range(min(LONGEST, len(text)), 0, -1):
        end = text[-length:]
        found = {text[at + length] for at in range(len(text) - length) if text[at : at + length] == end}
        if found:
            return found
    return set()


@given(st.lists(st.integers(0, 3), max_size=40), st.lists(st.integers(0, 3), max_size=4))
def test_what_is_proposed_first_follows_a_longest_match(text: list[int], path: list[int]) -> None:
    proposed = LookupSource(text, PLAIN).propose(path)
    # Matches are looked for in the text alone, so a path may end differently from every place in it.
    context = text + path
    expected = {
        text[at]
        for length in [longest_match(text, context)]
        if length
        for at in range(len(text))
        if text[max(0, at - length) : at] == context[-length:]
    }
    assert bool(proposed) == bool(expected)
    if proposed:
        assert max(proposed, key=lambda candidate: candidate.probability).token in expected
        assert len({candidate.token for candidate in proposed}) == len(proposed)
        assert all(0.0 < candidate.probability <= 1.0 for candidate in proposed)


def longest_match(text: list[int], context: list[int]) -> int:
    for length in range(min(LONGEST, len(context)), 0, -1):
        end = context[-length:]
        if any(text[at - length : at] == end for at in range(length, len(text))):
            return length
    return 0


@given(st.lists(st.integers(0, 3), max_size=30))
def test_without_a_path_it_is_what_a_naive_search_finds(text: list[int]) -> None:
    proposed = LookupSource(text, PLAIN).propose([])
    expected = naive(text)
    assert bool(proposed) == bool(expected)
    if proposed:
        assert proposed[0].token in expected


class TestJson:
    ENDS = LineEnds(SPELLINGS)
    PAGE = ids("-", " tea", " pot", "\n", "-", " blue", " cup", ".", "\n")

    def source(self, *output: str) -> LookupSource:
        return LookupSource(self.PAGE + ids(*output), self.ENDS.keys, self.ENDS)

    def test_a_value_begins_without_the_space_that_the_page_has(self) -> None:
        assert best(self.source('{"', "name", '":', ' "', "tea"), []) == b" pot"

    def test_the_end_of_a_line_closes_the_string(self) -> None:
        proposed = {SPELLINGS[candidate.token] for candidate in self.source(' "', "tea", " pot").propose([])}
        assert proposed == {b"\n", b'",', b'"],', b'"}', b'"'}

    def test_a_line_that_ends_with_the_next_token_closes_in_one_token_where_there_is_one(self) -> None:
        proposed = {SPELLINGS[candidate.token] for candidate in self.source(' "', "cup").propose([])}
        assert proposed >= {b".", b'.",'}

    def test_the_next_item_is_the_next_line(self) -> None:
        source = self.source(' ["', "tea", " pot", '",')
        assert ID[b" blue"] in {candidate.token for candidate in source.propose(ids(' "'))}

    def test_free_text_is_copied_as_it_stands(self) -> None:
        free = LookupSource(self.PAGE + ids(" tea", " pot"), self.ENDS.keys)
        assert [SPELLINGS[candidate.token] for candidate in free.propose([])] == [b"\n"]


@pytest.mark.parametrize(
    ("token", "key"),
    [
        (b" tea", b"tea"),
        (b'.",', b"."),
        (b'",', b'",'),
        (b"\n", b"\n"),
        (b" ", b" "),
        (b' "', b'"'),
        (b" blue", b" blue"),
    ],
)
def test_tokens_are_compared_without_a_leading_space_and_a_glued_end(token: bytes, key: bytes) -> None:
    assert SPELLINGS[LineEnds(SPELLINGS).keys[ID[token]]] == key


def test_special_tokens_stand_for_themselves() -> None:
    assert LineEnds([b"", b"", b"a"]).keys == (0, 1, 2)


def test_a_vocabulary_without_closers_is_no_error() -> None:
    ends = LineEnds([b"a", b"b"])
    assert ends.closers == ()
    assert ends.glued(0) == (None,) * 5
    assert not ends.opens(0)
