"""Nothing in; small tokenizers of both spellings (byte-level, SentencePiece) as tokenizer.json texts out."""

from __future__ import annotations

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from fetchly_llm.tokenizer import byte_alphabet

SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MERGES = ("h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "l d", "Ġwor ld", "1 2")
MISSING = (0x04, 0xF1)
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def byte_level_json() -> str:
    """GPT-2's alphabet without the bytes `MISSING`."""
    symbols = [symbol for symbol, byte in sorted(byte_alphabet().items()) if byte not in MISSING]
    tokens = [*SPECIALS, *symbols, *("".join(merge.split()) for merge in MERGES)]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    library = Tokenizer(models.BPE(vocab=vocabulary, merges=[tuple(merge.split()) for merge in MERGES]))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIALS])
    return library.to_str()


def sentencepiece_json() -> str:
    """With byte fallback and a dummy space before the first word."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "▁a", "▁b"]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    merges = [("▁", "a"), ("▁", "b")]
    library = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", byte_fallback=True))
    library.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    library.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    library.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in tokens[:3]])
    return library.to_str()
