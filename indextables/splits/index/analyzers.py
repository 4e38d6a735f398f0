"""Tokenizers: the tantivy analyzers that an index and its queries share."""

from __future__ import annotations

from typing import Any

import tantivy

from indextables.splits.index import mapping as kinds

GRAM = 3


def analyzer_name(tokenizer: str) -> str:
    """The name under which an index registers it. tantivy's built-in `default` and `en_stem` drop words of 40 bytes, such as hashes.

    `raw` is built into tantivy and registered in every index.
    """
    return {kinds.DEFAULT: "words", kinds.RAW: "raw"}.get(tokenizer, f"words_{tokenizer}")


def analyzer(tokenizer: str = kinds.DEFAULT) -> Any:
    """A new analyzer on each call: threads must not share one."""
    match tokenizer:
        case kinds.RAW:
            return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw()).build()
        case kinds.WHITESPACE:
            words = tantivy.Tokenizer.whitespace()
        case kinds.NGRAM:
            words = tantivy.Tokenizer.ngram(GRAM, GRAM)
        case _:
            words = tantivy.Tokenizer.simple()
    builder = tantivy.TextAnalyzerBuilder(words).filter(tantivy.Filter.lowercase())
    return (builder.filter(tantivy.Filter.stemmer("english")) if tokenizer == kinds.EN_STEM else builder).build()


def grams(text: str) -> list[str]:
    """The lowercased grams of a text in order: one per character that is followed by two more."""
    lowered = text.lower()
    return [lowered[at : at + GRAM] for at in range(len(lowered) - GRAM + 1)]


def gram_tokens(text: str) -> Any:
    """The grams with positions, which tantivy's ngram tokenizer does not record: a phrase of grams matches exactly a substring."""
    lowered = text.lower()
    tokens = [tantivy.Token(gram, at, at, at + GRAM) for at, gram in enumerate(grams(text))]
    return tantivy.PreTokenizedString(lowered, tokens)
