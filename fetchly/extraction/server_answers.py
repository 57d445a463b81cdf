"""What a model server answered in; the models it has, the text that its model wrote, or the error that it means out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fetchly.errors import ConfigurationError, ExtractionError, FetchlyError, RecordInvalid, SchemaError
from fetchly.extraction.generator import ExtractionStats, Generated
from fetchly.extraction.server_connection import ServerAnswer, ServerConnection
from fetchly.extraction.server_reference import LEAST_CONTEXT, MOST_CONTEXT
from fetchly.extraction.server_schema import named_place

_MOST_TOKENS = 2**40  # a count above this is none
_CONTEXT_WORDS = re.compile(r"context[ _](length|size|window)|maximum context|max_model_len|too many tokens", re.I)
_SCHEMA_WORDS = re.compile(r"schema|grammar|response_format|structured|guided|regex", re.I)
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(?P<inside>(?:(?!```).)*)\n?```", re.S | re.I)
_THINKING, _THOUGHT = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model as the server lists it. `context_length` is in tokens, None where it is not said; `trained_length` that
    which its model was trained with, which the server may have cut; `details` tell one model from another."""

    id: str
    context_length: int | None
    trained_length: int | None
    details: Mapping[str, Any]


def json_of(answer: ServerAnswer, url: str, connection: ServerConnection) -> dict[str, Any]:
    """The JSON object of an answer with status 2xx. Errors: ExtractionError."""
    if answer.media_type != "application/json" and not answer.media_type.endswith("+json"):
        said = connection.quoted(answer.media_type) or "nothing that is named"
        raise _unreadable(f"the model server answers with {said}, not with JSON", url)
    try:
        value = json.loads(answer.body)
    except (ValueError, RecursionError):  # no JSON, no UTF-8, a number of thousands of digits, brackets without end
        raise _unreadable("the model server's answer is not JSON that can be read", url) from None
    if not isinstance(value, dict):
        raise _unreadable("the model server's answer is JSON, but no object", url)
    return value


def served_models(value: Mapping[str, Any], url: str) -> tuple[ServedModel, ...]:
    """The answer to GET /models. Errors: ExtractionError."""
    listed = value.get("data")
    if not isinstance(listed, list) or not all(isinstance(m, dict) and isinstance(m.get("id"), str) for m in listed):
        raise _unreadable("the model server's list of models is none", url)
    return tuple(_served(model, url) for model in listed)


def _served(model: dict[str, Any], url: str) -> ServedModel:
    meta = model["meta"] if isinstance(model.get("meta"), dict) else {}
    said = (model.get("max_model_len"), model.get("context_length"), model.get("max_context_length"), meta.get("n_ctx"))
    trained = meta.get("n_ctx_train")
    details = {key: model[key] for key in ("root", "parent", "revision") if isinstance(model.get(key), str)}
    details |= {key: meta[key] for key in ("n_params", "size", "n_vocab") if isinstance(meta.get(key), int)}
    return ServedModel(
        model["id"],
        next((context_of(tokens, url) for tokens in said if tokens is not None), None),
        None if trained is None else context_of(trained, url),
        details,
    )


def context_of(tokens: Any, url: str) -> int:
    """A context length that a server says. Errors: ExtractionError for what is none."""
    if not isinstance(tokens, int) or isinstance(tokens, bool) or not LEAST_CONTEXT <= tokens <= MOST_CONTEXT:
        raise ExtractionError(
            "the model server says a context length that is none",
            where=url,
            code="SERVER_ANSWER",
            hint="say it yourself: ?context=TOKENS in the server's address",
        )
    return tokens


def generated(value: Mapping[str, Any], url: str, connection: ServerConnection, waited_ms: float) -> Generated:
    """The answer to POST /chat/completions; `waited_ms` is what it took, as seen from here.

    Errors: RecordInvalid where the model wrote no whole answer, ExtractionError where this is no completion.
    """
    choices = value.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise _unreadable("the model server's answer is no chat completion", url)
    content, refusal, reason = message.get("content"), message.get("refusal"), choice.get("finish_reason")
    if isinstance(refusal, str) and refusal:
        raise RecordInvalid(f"the model refuses: {connection.quoted(refusal)}", code="ANSWER_REFUSED")
    if reason == "content_filter":
        raise RecordInvalid("the model server's filter withheld the answer", code="ANSWER_REFUSED")
    if content is not None and not isinstance(content, str):
        raise _unreadable("the model server's answer holds no text", url)
    thoughts = message.get("reasoning_content") or message.get("reasoning")
    text = answer_text(content or "")
    if reason == "length":
        open_thought = not text or text.startswith(_THINKING)
        raise RecordInvalid(
            "the answer was cut at max_tokens" + (", before the model had done thinking" if open_thought else ""),
            code="ANSWER_CUT",
            hint="raise max_tokens" + (", or turn the model's thinking off at the server" if open_thought else ""),
        )
    if reason not in ("stop", None):
        raise RecordInvalid(f"the model stopped for {connection.quoted(str(reason))!a}", code="ANSWER_CUT")
    if not text or text.startswith(_THINKING):
        more = " but thoughts" if thoughts or text else ""
        hint = "turn the model's thinking off at the server" if more else None
        raise RecordInvalid(f"the model wrote nothing{more}", code="ANSWER_EMPTY", hint=hint)
    return Generated(text, _stats(value, waited_ms))


def answer_text(content: str) -> str:
    """A message without the thoughts before the answer, and without a fence around all of it.

    JSON is left alone, whatever it holds; so is all that could be read in two ways.
    """
    text = content.strip()
    if _is_json(text):
        return text
    # A template that opens the thought itself leaves only its end to the model.
    if _THOUGHT in text:
        text = text.partition(_THOUGHT)[2].strip()
    fenced = _FENCED.fullmatch(text)
    return fenced["inside"].strip() if fenced else text


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _stats(value: Mapping[str, Any], waited_ms: float) -> ExtractionStats:
    """What is not said is 0; where the server does not tell reading from writing (llama.cpp does), all is writing."""
    usage = _mapping(value.get("usage"))
    timings = _mapping(value.get("timings"))
    prefill_ms, decode_ms = _milliseconds(timings.get("prompt_ms")), _milliseconds(timings.get("predicted_ms"))
    told = prefill_ms is not None and decode_ms is not None
    return ExtractionStats(
        prompt_tokens=_count(usage.get("prompt_tokens")),
        cached_prompt_tokens=_count(_mapping(usage.get("prompt_tokens_details")).get("cached_tokens")),
        output_tokens=_count(usage.get("completion_tokens")),
        prefill_ms=prefill_ms or 0.0 if told else 0.0,
        decode_ms=decode_ms or 0.0 if told else waited_ms,
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int:
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
    return value if fits else 0


def _milliseconds(value: Any) -> float | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1e9
    return float(value) if fits else None


def refusal_of(
    answer: ServerAnswer,
    url: str,
    connection: ServerConnection,
    model: str = "",
    schema: Mapping[str, Any] | None = None,
) -> FetchlyError:
    """What an error status means; `model` and `schema` are those that were asked for."""
    said = connection.quoted(_said(answer.body))
    told = f"HTTP {answer.status}{f': {said}' if said else ''}"
    if answer.status in (401, 403):
        return ConfigurationError(
            f"the model server wants another API key ({told})",
            where=url,
            code="SERVER_KEY",
            hint="put the right one into the variable FETCHLY_API_KEY",
        )
    if answer.status == 404:
        hint = f"is {connection.quoted(model)!a} one of its models?" if model else "does the address end in /v1?"
        return ConfigurationError(
            f"the model server does not know what it is asked for ({told})", where=url, code="SERVER_UNKNOWN", hint=hint
        )
    if answer.status in (400, 422) and _CONTEXT_WORDS.search(said):
        return ExtractionError(
            f"page and answer are longer than the server's model can read ({told})",
            where=url,
            code="CONTEXT_TOO_SMALL",
            hint="say its context length, ?context=TOKENS in the server's address, or lower budget and max_tokens",
        )
    if answer.status in (400, 422) and schema is not None and _SCHEMA_WORDS.search(said):
        place = named_place(said, schema) or ""
        return SchemaError(
            f"the model server does not take the schema ({told})",
            pointer=place,
            where=f"{place or '(schema root)'} of what is sent to {url}",
            code="SERVER_SCHEMA",
            hint="?format=json_object in the server's address has it write JSON of any shape, checked afterwards",
        )
    failed = answer.status >= 500
    return ExtractionError(
        f"the model server {'failed' if failed else 'refuses'} ({told})",
        where=url,
        code="SERVER_FAILED" if failed else "SERVER_REFUSED",
        hint="its log may say why",
        retryable=failed,
    )


def _said(body: bytes) -> str:
    """The words of an error: OpenAI's `error.message`, vLLM's `message`, FastAPI's `detail`, or all of it."""
    text = body[:65536].decode("utf-8", "replace")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    while isinstance(value, dict):
        value = next((value[key] for key in ("error", "message", "detail") if value.get(key)), json.dumps(value))
    return value if isinstance(value, str) else json.dumps(value)


def _unreadable(message: str, url: str) -> ExtractionError:
    return ExtractionError(
        message, where=url, code="SERVER_ANSWER", hint="does an OpenAI-compatible server stand there?"
    )
