"""Bytes to text: marks, labels, lies and guesses."""

from __future__ import annotations

import codecs

import pytest

from fetchly.document.charsets import codec_of
from fetchly.document.decode import decode

GERMAN = "<p>Der Preis für zwölf Äpfel beträgt zwei Euro. Größe: groß"
RUSSIAN = "<p>Привет мир, это тестовая страница с русским текстом и ценами"
UKRAINIAN = "<p>Ласкаво просимо на сторінку з українським текстом, ціна книги двадцять гривень"
CHINESE = "<p>这是一个中文网页，价格是二十元，欢迎光临我们的商店"
JAPANESE = "<p>これは日本語のページです。価格は二十円です。ようこそ"
POLISH = "<p>Książka kosztuje dziesięć złotych, a łódź już odpłynęła; dźwięk ciszy"
CZECH = "<p>Příliš žluťoučký kůň úpěl ďábelské ódy, cena zboží je dvacet korun českých"
HUNGARIAN = "<p>Árvíztűrő tükörfúrógép, a könyv ára kétezer forint, jó estét kívánok"
FRENCH = "<p>Le cœur de la forêt coûte 12 €, élève très doué à la fenêtre"
KOREAN = "<p>이것은 한국어 페이지입니다. 가격은 이십 원입니다"


def meta(label: str) -> bytes:
    return f'<html><head><meta charset="{label}">'.encode()


def test_a_byte_order_mark_beats_everything() -> None:
    body = codecs.BOM_UTF8 + meta("iso-8859-1") + "mööse".encode()
    assert decode(body, "windows-1251").text.endswith("mööse")
    assert decode(codecs.BOM_UTF16_LE + "<p>ö".encode("utf-16-le")).text == "<p>ö"
    assert decode(codecs.BOM_UTF16_BE + "<p>ö".encode("utf-16-be")).text == "<p>ö"


def test_the_transport_beats_the_page() -> None:
    body = meta("iso-8859-1") + "Цена".encode("cp1251")
    assert decode(body, "Windows-1251").text.endswith("Цена")


def test_the_page_beats_a_guess() -> None:
    assert decode(meta("iso-8859-1") + "mööse".encode("latin-1")).text.endswith("mööse")
    old = b'<meta http-equiv="Content-Type" content="text/html; charset=iso-8859-2">'
    assert decode(old + "žluť".encode("iso-8859-2")).text.endswith("žluť")
    assert decode(b'<?xml version="1.0" encoding="windows-1251"?><p>' + "Цена".encode("cp1251")).text.endswith("Цена")


def test_a_commented_declaration_declares_nothing() -> None:
    body = b"<!-- <meta charset=windows-1251> -->" + meta("iso-8859-1") + "ö".encode("latin-1")
    assert decode(body).text.endswith("ö")


@pytest.mark.parametrize("label", ["gb2312", "gbk", "x-gbk"])
def test_chinese_labels_mean_their_superset(label: str) -> None:
    text = "朱镕基"  # the middle character is missing from gb2312
    assert decode(meta(label) + text.encode("gb18030")).text.endswith(text)


def test_latin1_means_windows_1252() -> None:
    assert decode("“100 €”".encode("cp1252"), "iso-8859-1").text == "“100 €”"


def test_utf8_under_a_single_byte_label_is_utf8() -> None:
    assert decode(meta("iso-8859-1") + "mööse".encode()).text.endswith("mööse")
    assert decode(meta("iso-8859-1") + b"plain").encoding == "cp1252"


def test_a_utf8_label_on_other_bytes_is_a_lie() -> None:
    assert decode(meta("utf-8") + GERMAN.encode("cp1252")).text.endswith("groß")
    mostly = meta("utf-8") + GERMAN.encode() * 5 + b"\xff"
    assert decode(mostly).encoding == "utf-8"
    assert decode(mostly).text.count("\ufffd") == 1


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        (GERMAN, "cp1252"),
        ("<p>Café", "cp1252"),
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8-r"),
        (RUSSIAN, "iso8859-5"),
        (RUSSIAN, "cp866"),
        (UKRAINIAN, "cp1251"),
        (UKRAINIAN, "iso8859-5"),
        (CHINESE, "gb18030"),
        (JAPANESE, "cp932"),
        (JAPANESE, "euc-jp"),
        (KOREAN, "cp949"),
        ("<p>Καλημέρα κόσμε, αυτή είναι μια σελίδα", "cp1253"),
        (JAPANESE, "iso2022_jp"),
        ("<p>這是一個中文網頁，價格是二十元，歡迎光臨我們的商店", "big5"),
        (POLISH, "cp1250"),
        (POLISH, "iso8859-2"),
        (CZECH, "cp1250"),
        (CZECH, "iso8859-2"),
        (HUNGARIAN, "cp1250"),
        (HUNGARIAN, "iso8859-2"),
        (FRENCH, "cp1252"),
        (FRENCH, "iso8859-15"),
        ("<p>L’été à Malmö — «señor» São Paulo, 5 °C ± 1", "cp1252"),
        ("<p>Книга", "cp1251"),
        ("<p>Türkçe sayfa, fiyatı yüz lira, İstanbul şehri", "cp1254"),
    ],
)
def test_an_undeclared_encoding_is_guessed_from_the_foreign_words(text: str, codec: str) -> None:
    head = b"<html><head>" + b"<script src=a.js></script>" * 1000  # 26 kB of ASCII before the first word
    assert decode(head + text.encode(codec)).text.endswith(text)


@pytest.mark.parametrize(
    ("language", "word", "codec"),
    [
        ("et", "sõõr", "cp1257"),
        ("cs", "zboží", "cp1250"),
        ("hu", "Győr", "cp1250"),
        ("fr", "naïve", "cp1252"),
        ("da-DK", "Ærø", "cp1252"),
        ("en", "10 °C – “fine” Café", "cp1252"),
    ],
)
def test_one_word_is_read_in_the_language_of_the_page(language: str, word: str, codec: str) -> None:
    body = f'<!DOCTYPE html><html class=x lang="{language}"><p>{word} and more and more and more'
    assert decode(body.encode(codec)).text == body


def test_a_language_of_another_alphabet_is_no_evidence() -> None:
    for text, codec in ((RUSSIAN, "cp1251"), (CHINESE, "gb18030"), (POLISH, "cp1250")):
        body = f"<html lang=en>{text}"  # what the template says
        assert decode(body.encode(codec)).text == body


def test_scripts_and_attributes_are_no_evidence() -> None:
    body = "<script>" + "var a = 'x'; " * 5000 + "// \xc4\xd6</script>" + RUSSIAN
    assert decode(body.encode("cp1251", "replace")).text.endswith(RUSSIAN)
    only_attributes = '<img alt="Цена книги двести рублей">'
    assert decode(only_attributes.encode("cp1251")).text == only_attributes


def test_broken_utf8_without_a_label_is_utf8() -> None:
    body = GERMAN.encode() * 5 + "Größe".encode("latin-1") + CHINESE.encode()[:-1]
    decoded = decode(body)
    assert decoded.encoding == "utf-8"
    assert decoded.text.startswith(GERMAN)


def test_a_multibyte_label_on_other_bytes_is_a_lie() -> None:
    assert decode(meta("gb2312") + RUSSIAN.encode("cp1251") + b"\xff").text.endswith("ценами\u044f")
    cut = meta("gb2312") + (CHINESE * 3).encode("gb18030")[:-1]
    assert decode(cut).encoding == "gb18030"


def test_utf16_without_a_mark() -> None:
    assert decode("<html><p>Grüße aus Köln".encode("utf-16-le")).text == "<html><p>Grüße aus Köln"
    assert decode("<html><p>Grüße aus Köln".encode("utf-16-be")).text == "<html><p>Grüße aus Köln"


@pytest.mark.parametrize("label", ["utf-7", "hex", "base64", "rot13", "unicode_escape", "idna", "punycode", "nonsense"])
def test_codecs_that_are_no_page_encoding_are_not_known(label: str) -> None:
    assert codec_of(label) is None
    assert decode(meta(label) + b"<p>x", label).encoding == "utf-8"


def test_every_label_has_a_codec() -> None:
    labels = ("utf-8", "windows-1252", "gbk", "big5", "euc-jp", "shift_jis", "euc-kr", "koi8-u", "macintosh", "tis-620")
    for label in labels:
        assert codecs.lookup(codec_of(label) or "missing")


def test_it_never_raises() -> None:
    for body in (b"", b"\xff", bytes(range(256)), b"\x81\x8d\x8f" * 100, b"\0" * 10):
        for label in (None, "utf-8", "iso-8859-1", "gb18030", "utf-16", "iso-2022-jp"):
            assert isinstance(decode(body, label).text, str)
