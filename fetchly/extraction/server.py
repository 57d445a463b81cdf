"""A model server as a Generator: the prompt as chat messages and the schema as `response_format` in, its text out.

Any server with OpenAI's chat completions will do (vLLM, SGLang, llama.cpp, Ollama, LM Studio). It is trusted with
nothing: what it writes goes through the same checks as the embedded engine's.
"""

from __future__ import annotations

import difflib
import json
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from fetchly.errors import ConfigurationError, ModelUnavailable
from fetchly.extraction.decoding import decoding_schema
from fetchly.extraction.extractor import ExtractionOptions
from fetchly.extraction.generator import Generated, GenerationTask, SchemaMode, SchemaNotice
from fetchly.extraction.local import LocalGenerator
from fetchly.extraction.server_answers import ServedModel, context_of, generated, json_of, refusal_of, served_models
from fetchly.extraction.server_connection import ServerConnection
from fetchly.extraction.server_reference import parse_server_reference
from fetchly.extraction.server_schema import plain_schema
from fetchly.extraction.server_tokens import TokenCounter

ASSUMED_CONTEXT = 4096
"""Tokens, where neither the server nor its address says: Ollama's default, which it cuts prompts to without a word."""
QUESTION_TIMEOUT_S = 30.0
_SEED_STEP = 1_000_003
_SEEDS = 2**31
"""Servers keep seeds in 32 bits with a sign, or in more."""
_LISTED = 12  # models in a message


class ServerGenerator:
    """A model behind `url`, which is read as docs/models.md says; `model` replaces the one that it names.

    `api_key` goes into the Authorization header and nowhere else. `unused` are names of options that the user set and
    that are the server's affair: said with the schema's notices. Safe to share between threads, which ask side by side.
    The server is asked for the first time when its model's identity, its context or an answer is. Errors on making:
    ConfigurationError for an address or a key that cannot be one.
    """

    def __init__(
        self, url: str, *, model: str | None = None, api_key: str | None = None, unused: Sequence[str] = ()
    ) -> None:
        self._reference = parse_server_reference(url)
        self._wanted = model or self._reference.model
        self._connection = ServerConnection(self._reference, api_key)
        self._unused = tuple(unused)
        self._linter = LocalGenerator()  # a schema is right or wrong whoever writes
        self._served: ServedModel | None = None
        self._context: int | None = None
        self._counter: TokenCounter | None = None
        self._asking = threading.Lock()

    @property
    def identity(self) -> str:
        """Address, model and what the server says of it, context included, as the page's share hangs on that. Weights
        that change under one name, and what the server adds to a prompt, are beyond its knowledge."""
        served = self._model()
        parts = [self._reference.base, served.id, dict(served.details), self.context_length]
        return self._connection.hidden(f"server {json.dumps([*parts, self._reference.answer_format])}")

    @property
    def trained_format(self) -> str | None:
        """Nobody says."""
        return None

    @property
    def context_length(self) -> int:
        """What the address says, or the server, or ASSUMED_CONTEXT."""
        if self._reference.context_length is not None:
            return self._reference.context_length
        served = self._model()
        if served.context_length is not None:
            return served.context_length
        with self._asking:
            if self._context is None:
                self._context = self._asked_context(served) or ASSUMED_CONTEXT
            return self._context

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """By the server's `/tokenize` where it has one, else an estimate on the safe side."""
        return self._tokens().count(texts)

    def check_schema(self, user_schema: Mapping[str, Any], mode: SchemaMode) -> tuple[SchemaNotice, ...]:
        """The embedded engine's lint, and what differs with a server; without asking it. Errors: SchemaError."""
        notices = list(self._linter.check_schema(user_schema, mode))
        if self._unused:
            names, them = ", ".join(self._unused), "these are" if len(self._unused) > 1 else "this is"
            message = f"{names}: {them} the model server's affair, and without effect here"
            notices.append(SchemaNotice("SERVER_OPTION", "", message, warning=True))
        later = sorted(plain_schema(decoding_schema(user_schema).schema).loosened)
        if later and self._reference.answer_format == "json_schema":
            message = f"checked when the server has answered, not while its model writes: {', '.join(later)}"
            notices.append(SchemaNotice("SERVER_CHECKED_LATER", "", message))
        return tuple(notices)

    def prepare(self, decoding_schema: Mapping[str, Any]) -> None:
        """Find the model, and what the server is sent of a schema. Errors: SchemaError."""
        self._response_format(decoding_schema)
        self._model()

    def generate(self, task: GenerationTask) -> Generated:
        """Write one answer. A retry after a lost connection asks for the same answer again."""
        served = self._model()
        url = f"{self._reference.base}/chat/completions"
        form = self._response_format(task.schema)
        started = time.perf_counter()
        answer = self._connection.ask(url, request_body(task, served.id, form), should_stop=task.should_stop)
        waited_ms = 1000 * (time.perf_counter() - started)
        if answer.status != 200:
            sent = form["json_schema"]["schema"] if "json_schema" in form else None
            raise refusal_of(answer, url, self._connection, served.id, sent)
        return generated(json_of(answer, url, self._connection), url, self._connection, waited_ms)

    def close(self) -> None:
        """Nothing is kept open."""

    def describe(self) -> dict[str, Any]:
        """What a user may want to know of it, as plain data. Asks the server."""
        served = self._model()
        said = (self._reference.context_length, served.context_length, served.trained_length)
        return {
            "name": self._connection.hidden(served.id),
            "server": self._reference.base,
            "context_length": self.context_length,
            "context_length_is": "assumed" if said == (None, None, None) else "known",
            "tokens_are": "counted" if self._tokens().is_exact else "estimated",
            "answer_format": self._reference.answer_format,
            **{key: self._connection.hidden(str(value)) for key, value in served.details.items()},
        }

    def _response_format(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        plain = plain_schema(schema).schema
        if self._reference.answer_format == "json_object":
            return {"type": "json_object"}
        return {"type": "json_schema", "json_schema": {"name": "record", "strict": True, "schema": plain}}

    def _tokens(self) -> TokenCounter:
        served = self._model()
        with self._asking:
            if self._counter is None:
                self._counter = TokenCounter(self._connection, served.id)
            return self._counter

    def _model(self) -> ServedModel:
        with self._asking:
            if self._served is None:
                self._served = self._chosen()
            return self._served

    def _chosen(self) -> ServedModel:
        url = f"{self._reference.base}/models"
        answer = self._connection.ask(url, timeout_s=QUESTION_TIMEOUT_S)
        if answer.status == 404 and self._wanted is not None:
            return ServedModel(self._wanted, None, None, {})  # a server of chat completions alone
        if answer.status != 200:
            raise refusal_of(answer, url, self._connection)
        models = served_models(json_of(answer, url, self._connection), url)
        if self._wanted is None:
            return self._only(models)
        # Ollama lists a model's default variant with a tag that nobody writes.
        for name in (self._wanted, f"{self._wanted}:latest"):
            for served in models:
                if served.id == name:
                    return served
        raise ModelUnavailable(
            f"the model server has no model {self._wanted!a}",
            where=self._reference.base,
            hint=self._guess(self._wanted, models),
        )

    def _only(self, models: tuple[ServedModel, ...]) -> ServedModel:
        if not models:
            raise ModelUnavailable("the model server has no model loaded", where=self._reference.base)
        if len(models) > 1:
            raise ConfigurationError(
                f"the model server has {len(models)} models: {self._names(models)}",
                where=self._reference.base,
                hint=f"choose one: {self._reference.base}#NAME",
                code="MODEL_AMBIGUOUS",
            )
        return models[0]

    def _guess(self, wanted: str, models: tuple[ServedModel, ...]) -> str:
        close = difflib.get_close_matches(wanted, [served.id for served in models], n=1)
        if close:
            return f"did you mean {self._connection.quoted(close[0])}?"
        return f"it has: {self._names(models)}" if models else "it has none loaded"

    def _names(self, models: tuple[ServedModel, ...]) -> str:
        names = [self._connection.quoted(served.id) for served in models[:_LISTED]]
        return ", ".join(names) + (f" and {len(models) - _LISTED} more" if len(models) > _LISTED else "")

    def _asked_context(self, served: ServedModel) -> int | None:
        """What llama.cpp gives an answer of the length that its model was trained with; None where nobody says."""
        if served.trained_length is None:
            return None
        url = f"{self._reference.root}/props"
        answer = self._connection.ask(url, timeout_s=QUESTION_TIMEOUT_S)
        if answer.status != 200:
            return served.trained_length
        settings = json_of(answer, url, self._connection).get("default_generation_settings")
        tokens = settings.get("n_ctx") if isinstance(settings, dict) else None
        return served.trained_length if tokens is None else min(served.trained_length, context_of(tokens, url))


def request_body(task: GenerationTask, model: str, response_format: Mapping[str, Any]) -> dict[str, Any]:
    """What is POSTed to `/chat/completions`. `system` and `task` open it alike for every page of a schema: servers keep
    their tokens between pages. A redraw has a seed of its own."""
    prompt = task.prompt
    return {
        "model": model,
        "messages": [
            {"role": "system", "content": prompt.system},
            {"role": "user", "content": prompt.task + prompt.page},
        ],
        "response_format": dict(response_format),
        "temperature": task.temperature,
        "seed": (task.seed + task.attempt * _SEED_STEP) % _SEEDS,
        "max_tokens": task.max_tokens,
        "stream": False,
    }


def unused_settings(options: ExtractionOptions, device: str, threads: int | None) -> list[str]:
    """What a user has set that has no meaning for a model server."""
    default = ExtractionOptions()
    changed = {
        "device": device != "auto",
        "threads": threads is not None,
        "draft": options.draft != default.draft,
        "verify": options.verify != default.verify,
    }
    return [name for name, is_set in changed.items() if is_set]
