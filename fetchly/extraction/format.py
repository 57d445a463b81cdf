"""The version of everything that stands between a page and a model.

It covers how a page becomes lines (document/), which of them are shown (sections, relevance.json), the words of the
prompt, the layout of an answer and the derivation of the decoding schema. A model is trained for one version and
answers well under no other; results are kept under keys that hold it. `tests/golden/test_format.py` fails when any of
these changes: then this number rises, and the models are trained again.
"""

from __future__ import annotations

FORMAT_VERSION = "1"
