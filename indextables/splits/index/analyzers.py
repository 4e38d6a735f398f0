"""How text becomes words: the analyzers of tantivy that an index and its queries share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tantivy

from indextables.splits.index import mapping as kinds

GRAM = 3
_RAW = "raw"  # tantivy's own: registered in every index


def analyzer_name(tokenizer: str) -> str:
    """Under which the index knows it. Not tantivy's own names: its `default` and `en_stem` drop words of 40 bytes, such as hashes."""
    return {kinds.DEFAULT: "words", kinds.RAW: _RAW}.get(tokenizer, f"words_{tokenizer}")


def analyzer(tokenizer: str = kinds.DEFAULT) -> Any:
    """A new one for each user: two threads must not share it."""
    return _BUILDERS[tokenizer]()


def grams(text: str) -> list[str]:
    """The grams of a text in their order: one at each character that has two after it."""
    lowered = text.lower()
    return [lowered[at : at + GRAM] for at in range(len(lowered) - GRAM + 1)]


def gram_tokens(text: str) -> Any:
    """The grams with their places, which tantivy's own tokenizer forgets: a phrase of them is a part of the text, exactly."""
    lowered = text.lower()
    tokens = [tantivy.Token(gram, at, at, at + GRAM) for at, gram in enumerate(grams(text))]
    return tantivy.PreTokenizedString(lowered, tokens)


def register(index: Any, tokenizers: set[str]) -> None:
    for tokenizer in tokenizers - {kinds.RAW}:
        index.register_tokenizer(analyzer_name(tokenizer), analyzer(tokenizer))


def _words() -> Any:
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(tantivy.Filter.lowercase()).build()


def _stems() -> Any:
    lowered = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple()).filter(tantivy.Filter.lowercase())
    return lowered.filter(tantivy.Filter.stemmer("english")).build()


def _whitespace() -> Any:
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).filter(tantivy.Filter.lowercase()).build()


def _raw() -> Any:
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw()).build()


def _grams() -> Any:
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.ngram(GRAM, GRAM)).filter(tantivy.Filter.lowercase()).build()


_BUILDERS: dict[str, Callable[[], Any]] = {
    kinds.DEFAULT: _words,
    kinds.RAW: _raw,
    kinds.EN_STEM: _stems,
    kinds.WHITESPACE: _whitespace,
    kinds.NGRAM: _grams,
}
