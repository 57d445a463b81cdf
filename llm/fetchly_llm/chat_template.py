"""A model's own chat template and a conversation in; the template's text around the conversation's segments out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

import jinja2
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox
from jinja2.ext import Extension

from fetchly_llm.errors import ModelUnsupported
from fetchly_llm.request import Message

# Some chat templates print "today". The clock must not be part of a prompt whose answer is promised to be the same
# bytes tomorrow, so every template sees this one day.
TEMPLATE_DAY = datetime(2026, 1, 1)


class ChatTemplate:
    """How one model wants a conversation written.

    `source` is jinja2, as transformers reads it: sandboxed, with `raise_exception`, `strftime_now`, `tojson`, loop
    controls, `bos_token` and `eos_token`; None stands for the plain layout of `Tokenizer.chat`.
    """

    def __init__(self, source: str | None, *, bos_token: str, eos_token: str, add_bos: bool) -> None:
        self.source = source
        self._bos_token = bos_token
        self._eos_token = eos_token
        self._add_bos = add_bos

    def frame(self, messages: Sequence[Message]) -> list[str]:
        """The text before, between and after all segments of all messages: one piece more than segments.

        The pieces do not depend on what the segments say: stand-ins go through the template in their place. The text
        of a system message that the template refuses or loses stands at the start of the first user message. Raises
        ModelUnsupported for a template that cannot carry these messages.
        """
        if self.source is None:
            return self._plain_frame(messages)
        marks = _marks(sum(len(message.segments) for message in messages), self.source)
        turns: list[dict[str, str]] = []
        used = 0
        for message in messages:
            end = used + len(message.segments)
            turns.append({"role": message.role, "content": "".join(marks[used:end])})
            used = end
        try:
            return _split(self._render(turns), marks)
        except ModelUnsupported:
            folded = _system_folded(turns)
            if folded is None:
                raise
            return _split(self._render(folded), marks)

    @cached_property
    def _template(self) -> jinja2.Template:
        assert self.source is not None
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, "jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = TEMPLATE_DAY.strftime
        try:
            return environment.from_string(self.source)
        except jinja2.TemplateError as error:
            raise ModelUnsupported(f"the chat template cannot be read: {error}") from error

    def _plain_frame(self, messages: Sequence[Message]) -> list[str]:
        frame = [self._bos_token if self._add_bos else ""]
        for message in messages:
            frame[-1] += f"{message.role}:\n"
            frame += [""] * len(message.segments)
            frame[-1] += "\n\n"
        frame[-1] += "assistant:\n"
        return frame

    def _render(self, turns: Sequence[Mapping[str, str]]) -> str:
        try:
            return self._template.render(
                messages=list(turns),
                add_generation_prompt=True,
                bos_token=self._bos_token,
                eos_token=self._eos_token,
                # What models that can "think" ask for: the answer starts at once, under the grammar.
                enable_thinking=False,
                tools=None,
                documents=None,
            )
        except ModelUnsupported:
            raise
        except Exception as error:  # a template is foreign code: it may raise anything
            raise ModelUnsupported(f"the chat template does not take these messages: {error}") from error


class _GenerationBlock(Extension):
    """`{% generation %}...{% endgeneration %}`, which some templates put around what a model is trained on."""

    tags = {"generation"}  # noqa: RUF012 - the shape that jinja2 prescribes

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        """The block's contents, as if the tags were not there."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    # jinja2's own filter escapes <, > and & for HTML, which no chat template means.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)


def _marks(count: int, template: str) -> list[str]:
    """Stand-ins for segments: no white space to trim, nothing to escape, and not part of the template's own text."""
    stem = "q7segment"
    while stem in template:
        stem += "q"
    return [f"{stem}{index:06d}z" for index in range(count)]


def _split(text: str, marks: Sequence[str]) -> list[str]:
    frame: list[str] = []
    for mark in marks:
        before, found, text = text.partition(mark)
        if not found:
            raise ModelUnsupported("the chat template drops or reorders the text of a message")
        frame.append(before)
    frame.append(text)
    if any(mark in piece for piece in frame for mark in marks):
        raise ModelUnsupported("the chat template repeats or reorders the text of a message")
    return frame


def _system_folded(turns: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]] | None:
    """The same turns with the system text put before the first user's; None where that is not the question."""
    if len(turns) < 2 or turns[0]["role"] != "system" or turns[1]["role"] != "user":
        return None
    content = turns[0]["content"] + "\n\n" + turns[1]["content"]
    return [{"role": "user", "content": content}, *turns[2:]]
