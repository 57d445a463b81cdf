"""A model's tokenizer files in; token ids of data and of chats, and the bytes behind ids, out. No tensors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from fetchly_llm.chat_template import ChatTemplate
from fetchly_llm.errors import ModelMissing, ModelUnsupported, RequestInvalid
from fetchly_llm.request import Message

REPLACEMENT = "\ufffd"


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A whole chat prompt, the assistant's opening included.

    `segment_ends[k]` is the number of ids up to and including the k-th segment, counted over all messages in order:
    two chats of the same roles that differ only after segment k share `ids[:segment_ends[k]]`.
    """

    ids: tuple[int, ...]
    segment_ends: tuple[int, ...]


class Tokenizer:
    """Text to ids and back, exact in both directions wherever the vocabulary allows.

    Text given to `encode` is data: nothing is put before it, no spelling of a special token inside it becomes that
    token. Characters that a byte-level vocabulary cannot spell (SmolLM2's lacks 21 bytes: control characters, planes 4
    to 11 of Unicode) become U+FFFD; the `tokenizers` library would drop them without a word.
    """

    def __init__(
        self,
        json_text: str,
        *,
        eos_token_ids: Sequence[int] = (),
        chat_template: str | None = None,
        bos_token: str = "",
        eos_token: str = "",
        add_bos: bool = False,
    ) -> None:
        self.json_text = json_text
        self.eos_token_ids = tuple(eos_token_ids)
        self._chat_template = ChatTemplate(chat_template, bos_token=bos_token, eos_token=eos_token, add_bos=add_bos)
        try:
            self._specification: dict[str, Any] = json.loads(json_text)
            self._plain_json = json.dumps(_without_additions(self._specification))
            self._data = tokenizers.Tokenizer.from_str(self._plain_json)
        except Exception as error:  # the library raises bare Exception for a file that it cannot read
            raise ModelUnsupported(f"tokenizer.json cannot be read: {error}") from error
        self._data.encode_special_tokens = True
        self._token_bytes = _token_bytes(self._specification, self._data.get_vocab(with_added_tokens=True))
        self._unspellable = _unspellable_bytes(self._specification, self._data.get_vocab(with_added_tokens=False))

    @classmethod
    def load(cls, folder: Path) -> Tokenizer:
        """Read the tokenizer of a checkpoint folder in the Hugging Face layout.

        Raises ModelMissing where a file is absent, ModelUnsupported where one cannot be used.
        """
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise ModelMissing(f"{folder} holds no tokenizer.json", hint="point to a folder with a fast tokenizer")
        settings = _json_object(folder / "tokenizer_config.json")
        tokens = {name: _token_text(settings.get(name)) for name in ("bos_token", "eos_token")}
        tokenizer = cls(
            path.read_text(encoding="utf-8"),
            chat_template=_chat_template(folder, settings),
            bos_token=tokens["bos_token"],
            eos_token=tokens["eos_token"],
            add_bos=bool(settings.get("add_bos_token", False)),
        )
        tokenizer.eos_token_ids = tokenizer._declared_eos_ids(folder, tokens["eos_token"])
        return tokenizer

    @property
    def vocab_size(self) -> int:
        """One more than the highest id that stands for a token; the model's logits may be wider."""
        return len(self._token_bytes)

    @cached_property
    def special_token_ids(self) -> frozenset[int]:
        """Ids of control tokens."""
        return frozenset(number for number, token in self._data.get_added_tokens_decoder().items() if token.special)

    @cached_property
    def token_of_spelling(self) -> Mapping[bytes, int]:
        """The ordinary tokens by what they spell; of several with one spelling the lowest id."""
        spelt = ((self._token_bytes[number], number) for number in reversed(range(self.vocab_size)))
        return {spelling: number for spelling, number in spelt if spelling and number not in self.special_token_ids}

    @cached_property
    def longest_spelling(self) -> int:
        """Bytes of the longest ordinary token."""
        return max(map(len, self.token_of_spelling))

    def encode(self, text: str) -> list[int]:
        """The ids of `text` as data. Raises RequestInvalid for a lone surrogate, which is not text."""
        if not text:
            return []
        return self._data.encode(self._spellable(text), add_special_tokens=False).ids

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        """The bytes that `ids` spell, special tokens by their names. An id without a token spells nothing.

        Raises RequestInvalid for an id outside the vocabulary.
        """
        outside = [number for number in ids if not 0 <= number < self.vocab_size]
        if outside:
            raise RequestInvalid(f"{outside[0]} is not a token id below {self.vocab_size}")
        return b"".join(self._token_bytes[number] for number in ids)

    def decode(self, ids: Sequence[int]) -> str:
        """`decode_bytes` as text; bytes that are not UTF-8 (a character cut in two) read as U+FFFD."""
        return self.decode_bytes(ids).decode("utf-8", errors="replace")

    def chat(self, messages: Sequence[Message]) -> ChatPrompt:
        """The prompt for `messages`, laid out by the model's own chat template.

        Segments are tokenised one by one, as data. A template that refuses or loses a system message gets its text as
        the start of the first user message. Without a template the layout is `role:`, line break, text, blank line for
        each message, then `assistant:` and a line break, after the model's BOS token where it wants one.
        Raises RequestInvalid for an empty chat, ModelUnsupported for a template that cannot carry these messages.
        """
        if not messages:
            raise RequestInvalid("a chat needs at least one message")
        segments = [segment for message in messages for segment in message.segments]
        frame = self._chat_template.frame(messages)
        ids: list[int] = []
        ends: list[int] = []
        for text, segment in zip(frame, segments, strict=False):
            ids += self._encode_template(text)
            ids += self.encode(segment)
            ends.append(len(ids))
        ids += self._encode_template(frame[-1])
        return ChatPrompt(tuple(ids), tuple(ends))

    @cached_property
    def _with_specials(self) -> tokenizers.Tokenizer:
        # A second instance: the switch is a field of the library's object, and flipping it would race between threads.
        return tokenizers.Tokenizer.from_str(self._plain_json)

    def _encode_template(self, text: str) -> list[int]:
        return self._with_specials.encode(text, add_special_tokens=False).ids if text else []

    def _spellable(self, text: str) -> str:
        try:
            spelled = text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise RequestInvalid(f"character {error.start} of a text is a lone surrogate, not a character") from None
        if len(spelled.translate(None, self._unspellable)) == len(spelled):
            return text
        missing = set(self._unspellable)
        return "".join(REPLACEMENT if missing.intersection(letter.encode()) else letter for letter in text)

    def _declared_eos_ids(self, folder: Path, eos_token: str) -> tuple[int, ...]:
        """Every id that generation_config.json, config.json or tokenizer_config.json names as an end, ascending."""
        ends: set[int] = set()
        for name in ("generation_config.json", "config.json"):
            declared = _json_object(folder / name).get("eos_token_id")
            ends.update(declared if isinstance(declared, list) else [declared] if declared is not None else [])
        named = self._data.token_to_id(eos_token) if eos_token else None
        if named is not None:
            ends.add(named)
        if not ends:
            raise ModelUnsupported(f"{folder} names no end-of-text token (eos_token_id in generation_config.json)")
        return tuple(sorted(ends))


def _json_object(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelUnsupported(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ModelUnsupported(f"{path} is not a JSON object")
    return value


def _token_text(declared: Any) -> str:
    if isinstance(declared, dict):
        declared = declared.get("content")
    return declared if isinstance(declared, str) else ""


def _chat_template(folder: Path, settings: Mapping[str, Any]) -> str | None:
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    declared = settings.get("chat_template")
    if isinstance(declared, list):
        named = {entry["name"]: entry["template"] for entry in declared}
        declared = named.get("default")
    return declared if isinstance(declared, str) else None


def _without_additions(specification: Mapping[str, Any]) -> dict[str, Any]:
    """The same tokenizer without what it adds to a text: dummy first space, BOS, padding, truncation."""
    plain = dict(specification)
    plain.update(post_processor=None, truncation=None, padding=None)
    plain["pre_tokenizer"] = _without_prefix_space(plain.get("pre_tokenizer"))
    plain["normalizer"] = _without_prefix_space(plain.get("normalizer"))
    return plain


def _without_prefix_space(part: dict[str, Any] | None) -> dict[str, Any] | None:
    if part is None or part["type"] == "Prepend":
        return None
    part = dict(part)
    if "add_prefix_space" in part:
        part["add_prefix_space"] = False
    if "prepend_scheme" in part:
        part["prepend_scheme"] = "never"
    for name in ("pretokenizers", "normalizers"):
        if name in part:
            part[name] = [kept for inner in part[name] if (kept := _without_prefix_space(inner)) is not None]
    return part


def _is_byte_level(specification: Mapping[str, Any]) -> bool:
    """Whether tokens are spelled in GPT-2's byte alphabet, else in SentencePiece's. Raises ModelUnsupported."""
    decoder = json.dumps(specification.get("decoder"))
    if '"ByteLevel"' in decoder:
        return True
    if '"Metaspace"' in decoder or '"ByteFallback"' in decoder:
        return False
    raise ModelUnsupported("tokenizer.json has neither a byte-level nor a SentencePiece decoder")


def byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins for the 256 bytes: Latin-1's visible characters, then U+0100 onwards in order."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in visible]
    alphabet = {chr(byte): byte for byte in visible}
    alphabet.update({chr(0x100 + index): byte for index, byte in enumerate(hidden)})
    return alphabet


def _token_bytes(specification: Mapping[str, Any], vocabulary: Mapping[str, int]) -> list[bytes]:
    """The bytes of every id, `b""` for an id without a token."""
    added = {entry["content"] for entry in specification.get("added_tokens") or []}
    spell = _spell_byte_level(byte_alphabet()) if _is_byte_level(specification) else _spell_sentencepiece
    table = [b""] * (max(vocabulary.values(), default=-1) + 1)
    for token, number in vocabulary.items():
        table[number] = token.encode() if token in added else spell(token)
    return table


def _spell_byte_level(alphabet: Mapping[str, int]) -> Any:
    def spell(token: str) -> bytes:
        try:
            return bytes([alphabet[letter] for letter in token])
        except KeyError:
            raise ModelUnsupported(f"the token {token!r} is not spelled in the byte alphabet") from None

    return spell


def _spell_sentencepiece(token: str) -> bytes:
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        return bytes([int(token[3:5], 16)])
    return token.replace("▁", " ").encode()


def _unspellable_bytes(specification: Mapping[str, Any], vocabulary: Mapping[str, int]) -> bytes:
    if not _is_byte_level(specification):
        return b""
    return bytes(sorted(byte for symbol, byte in byte_alphabet().items() if symbol not in vocabulary))
