"""A byte-level BPE tokenizer of about a thousand tokens, trained on a few lines of text when first asked for."""

from __future__ import annotations

from functools import cache

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END_OF_TEXT = 0
END_OF_TURN = 2
EOS_IDS = (END_OF_TEXT, END_OF_TURN)
VOCAB_SIZE = 1056  # the logits' width: a few ids above the tokenizer's own vocabulary

_CORPUS = [
    '{"name": "Blue Kettle", "price": "$ 19.99", "tags": ["kettle", "blue", "steel"], "stock": 12, "sale": true}',
    '{"title": null, "items": [{"name": "Tea", "note": "a \\"quoted\\" word"}, {"name": "Coffee", "note": null}]}',
    '["a", "b", "c"], ["foo", "bar"]], "x": [{"y": "z"}, {"y": "w"}]}, {"k": [[1, 2], [3, 4]]}',
    '[{"a": "b"}, {"a": "b"}], "cc", "dd", null, false, 0, -1.5, "\\u0007", "\\t", "\\\\"',
    "The kettle whistles; the quick brown fox jumps over the lazy dog, again and again. Prices from 10 to 200.",
    "Grüße aus München, café crème, 北京 2023年 東京 สวัสดี हिन्दी emoji 👩‍👧 — dashes … and “quotes”",
]


@cache
def toy_tokenizer_json() -> str:
    """The text of its tokenizer.json."""
    tokenizer = Tokenizer(models.BPE())
    # No splitting by words: tokens such as `", "` and `"}, {"` must exist, since the grammar has to cope with them.
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1040,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        max_token_length=12,
    )
    tokenizer.train_from_iterator(_CORPUS * 3, trainer)
    return tokenizer.to_str()
