"""A GGUF file's vocabulary in; the text of tokenizer.json and the contents of tokenizer_config.json out."""

from __future__ import annotations

from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from fetchly_llm.errors import ModelUnsupported, WeightsMismatch
from fetchly_llm.store.gguf_file import GgufFile

# Kinds of tokens in `tokenizer.ggml.token_type`.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED = 1, 2, 3, 4, 5

# How the published tokenizers cut a text into words before merging. Digits: Qwen one by one, Llama 3 up to three.
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def tokenizer_json(file: GgufFile) -> str:
    """A byte-level BPE tokenizer as the `tokenizers` library writes it.

    Raises ModelUnsupported for other kinds of vocabularies and unknown ways of cutting words.
    """
    kind = file.required("tokenizer.ggml.model")
    if kind != "gpt2":
        raise ModelUnsupported(
            f"the GGUF vocabulary {kind!r} is not byte-level BPE",
            hint="use the model's safetensors folder, which has its own tokenizer.json",
        )
    pre = file.get("tokenizer.ggml.pre", "default")
    tokens: list[str] = file.required("tokenizer.ggml.tokens")
    kinds: list[int] = file.get("tokenizer.ggml.token_type") or [_NORMAL] * len(tokens)
    if len(kinds) != len(tokens) or len(set(tokens)) != len(tokens):
        raise WeightsMismatch("the GGUF vocabulary contradicts itself (token types missing, or a token twice)")
    # Unused entries pad the matrix to a round size; the original tokenizer does not know them.
    vocabulary = {token: index for index, token in enumerate(tokens) if kinds[index] != _UNUSED}
    tokenizer = Tokenizer(_bpe(vocabulary, file.required("tokenizer.ggml.merges"), pre))
    tokenizer.pre_tokenizer = _pre_tokenizer(pre)
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    for token, kind_number in zip(tokens, kinds, strict=True):
        if kind_number in (_UNKNOWN, _CONTROL):
            tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True)])
        elif kind_number == _USER_DEFINED:
            tokenizer.add_tokens([AddedToken(token, normalized=False, special=False)])
        elif kind_number not in (_NORMAL, _UNUSED):
            raise ModelUnsupported(f"the GGUF vocabulary has tokens of the unknown kind {kind_number}")
    return tokenizer.to_str(pretty=False)


def tokenizer_config(file: GgufFile) -> dict[str, Any]:
    """What transformers and our own Tokenizer read beside tokenizer.json."""
    tokens: list[str] = file.required("tokenizer.ggml.tokens")
    named = {
        "bos_token": "bos_token_id",
        "eos_token": "eos_token_id",
        "unk_token": "unknown_token_id",
        "pad_token": "padding_token_id",
    }
    config: dict[str, Any] = {
        name: tokens[number]
        for name, key in named.items()
        if (number := file.get(f"tokenizer.ggml.{key}")) is not None and number < len(tokens)
    }
    config.update(
        tokenizer_class="PreTrainedTokenizerFast",
        model_max_length=file.hyper_required("context_length"),
        clean_up_tokenization_spaces=False,
        add_bos_token=bool(file.get("tokenizer.ggml.add_bos_token", False)),
    )
    template = file.get("tokenizer.chat_template")
    if template is not None:
        config["chat_template"] = template
    return config


def _bpe(vocabulary: dict[str, int], merges: list[str], pre: str) -> models.BPE:
    pairs = [tuple(merge.split(" ")) for merge in merges]
    if any(len(pair) != 2 for pair in pairs):
        raise WeightsMismatch("a merge of the GGUF vocabulary is not a pair")
    try:
        # Llama 3's vocabulary holds words that no chain of merges reaches.
        return models.BPE(vocab=vocabulary, merges=pairs, ignore_merges=pre == "llama-bpe")  # type: ignore[arg-type]
    except Exception as error:  # the library raises bare Exception
        raise WeightsMismatch(f"the GGUF vocabulary does not fit its merges: {error}") from error


def _pre_tokenizer(pre: str) -> pre_tokenizers.PreTokenizer:
    """The cutting of a text into words by the name that llama.cpp gives it."""
    if pre in ("gpt-2", "gpt2"):
        return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if pre == "smollm":
        words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), words])
    digits = {"qwen2": r"\p{N}", "llama-bpe": r"\p{N}{1,3}"}.get(pre)
    if digits is None:
        raise ModelUnsupported(
            f"the GGUF file cuts words by {pre!r}, which is not known (known: smollm, gpt-2, qwen2, llama-bpe)",
            hint="use the model's safetensors folder, which has its own tokenizer.json",
        )
    split = pre_tokenizers.Split(Regex(_WORDS.replace("DIGITS", digits)), "isolated")
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
