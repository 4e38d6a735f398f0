"""Tokenizers: the tantivy analyzers that an index and its queries share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tantivy

from indextables.splits.index import mapping as kinds

GRAM = 3
_RAW = "raw"  # built into tantivy, registered in every index


def analyzer_name(tokenizer: str) -> str:
    """The name under which an index registers it. tantivy's built-in `default` and `en_stem` drop words of 40 bytes, such as hashes."""
    return {kinds.DEFAULT: "words", kinds.RAW: _RAW}.get(tokenizer, f"words_{tokenizer}")


def analyzer(tokenizer: str = kinds.DEFAULT) -> Any:
    """A new analyzer on each call: threads must not share one."""
    return _BUILDERS[tokenizer]()


def grams(text: str) -> list[str]:
    """The lowercased grams of a text in order: one per character that is followed by two more."""
    lowered = text.lower()
    return [lowered[at : at + GRAM] for at in range(len(lowered) - GRAM + 1)]


def gram_tokens(text: str) -> Any:
    """The grams with positions, which tantivy's ngram tokenizer does not record: a phrase of grams matches exactly a substring."""
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
