from __future__ import annotations

from fetchly.document.clean import collapse


def test_white_space_is_one_space() -> None:
    assert collapse(" a\n\t b\xa0\u2003c ") == "a b c"


def test_the_space_that_groups_digits_stays_no_break() -> None:
    assert collapse("1\u202f299,00\xa0€") == "1\xa0299,00 €"
    assert collapse("12\xa0345\u2009678") == "12\xa0345\xa0678"
    assert collapse("5\xa0kg 2024\xa012 1 299") == "5 kg 2024 12 1 299"
    assert collapse("569\xa0733-8848 (0)20\xa0123") == "569 733-8848 (0)20 123"


def test_icons_and_invisible_characters_go() -> None:
    assert collapse("\ue000 Te\xadxt \u200bhere \uf105") == "Text here"
