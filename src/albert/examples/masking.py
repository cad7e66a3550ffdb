"""N-gram masking (paper, section 4.1): draw spans of whole words, and the tokens that replace them.

A row is a segment of an example. Spans stay inside a row, so [CLS] and [SEP] are never masked.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from albert.examples.randomness import Ints, Keys, Stream, below, derive, uniform
from albert.examples.settings import ExampleSettings
from albert.text.tokenizer import Tokenizer

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class TokenTable:
    """The properties of a vocabulary that masking needs."""

    begins_word: Flags  # by token id
    ordinary: Ints  # the ids that may replace another: no special token
    cls_id: int
    sep_id: int
    mask_id: int


def build_token_table(tokenizer: Tokenizer) -> TokenTable:
    """Build the token table of a tokenizer's vocabulary."""
    ids = range(tokenizer.vocab_size)
    return TokenTable(
        begins_word=np.array([tokenizer.begins_word(i) for i in ids]),
        ordinary=np.array([i for i in ids if i not in tokenizer.special_ids], dtype=np.int64),
        cls_id=tokenizer.cls_id,
        sep_id=tokenizer.sep_id,
        mask_id=tokenizer.mask_id,
    )


@dataclass(frozen=True)
class Spans:
    """Masked runs of tokens [start, end) in the flat batch, in order and never adjacent."""

    start: Ints
    end: Ints
    num_words: Ints

    @property
    def positions(self) -> Ints:
        return expand_ranges(self.start, self.end - self.start)


NO_SPANS = Spans(*(np.empty(0, dtype=np.int64) for _ in range(3)))


def expand_ranges(starts: Ints, lengths: Ints) -> Ints:
    """Return the integers of all ranges [start, start + length)."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))


def draw_spans(
    begins_word_T: Flags, row_start: Ints, row_length: Ints, keys: Keys, settings: ExampleSettings
) -> Spans:
    """Draw spans of n whole words, p(n) ∝ 1/n, that cover `mask_share` of the tokens on average.

    Number and lengths are drawn before the positions, which are at least one word apart. The usual way, to
    fill a budget span by span, favors short spans at its end.
    """
    is_ngram = settings.masking == "ngram"
    num_words, first_word, word_start = _find_words(begins_word_T, row_start, row_length, is_ngram)
    edge_tokens = _count_edge_tokens(num_words, first_word, word_start, row_start, row_length)
    row, length = _draw_lengths(num_words, row_length, edge_tokens, keys, settings)
    # Concatenate the spans with a free word between two, or none if single tokens are masked.
    gap = 1 if is_ngram else 0
    count = np.bincount(row, minlength=len(num_words))
    first = np.cumsum(count) - count
    rank = np.arange(len(row)) - first[row]
    running = np.concatenate([[0], np.cumsum(length)])
    used = running[1:] - running[first[row]]  # words of the spans in a row up to this one
    fits = used + rank * gap <= num_words[row]
    row, length, rank, used = row[fits], length[fits], rank[fits], used[fits]
    count = np.bincount(row, minlength=len(num_words))
    total = np.bincount(row, weights=length, minlength=len(num_words)).astype(np.int64)
    free = num_words - total - gap * np.maximum(count - 1, 0)
    slack = below(derive(derive(keys[row], Stream.SPAN_POSITION), rank), free[row] + 1)
    # Sort within each row; rows are in order, so a sort by (row, slack) does this.
    slack = np.sort(row * np.int64(1 << 32) + slack) - row * np.int64(1 << 32)
    word = first_word[row] + slack + (used - length) + rank * gap
    row_end = (row_start + row_length)[row]
    after = word + length
    is_last = after >= (first_word + num_words)[row]
    end = np.where(is_last, row_end, word_start[np.minimum(after, len(word_start) - 1)])
    return Spans(word_start[word], end, length)


def _find_words(
    begins_word_T: Flags, row_start: Ints, row_length: Ints, is_ngram: bool
) -> tuple[Ints, Ints, Ints]:  # words per row, index of its first, starts of all words
    is_start = np.zeros(len(begins_word_T) + 1, dtype=bool)
    inside = expand_ranges(row_start, row_length)
    is_start[inside] = begins_word_T[inside] if is_ngram else True
    is_start[row_start[row_length > 0]] = True  # a row may begin inside a word
    before = np.concatenate([[0], np.cumsum(is_start)])
    first_word = before[row_start]
    return before[row_start + row_length] - first_word, first_word, np.flatnonzero(is_start)


def _count_edge_tokens(
    num_words: Ints, first_word: Ints, word_start: Ints, row_start: Ints, row_length: Ints
) -> Ints:
    """Count the tokens of the first and the last word of each row together."""
    start = np.append(word_start, len(word_start) and word_start[-1] + 1)
    row_end = row_start + row_length
    last = np.maximum(first_word + num_words - 1, 0)
    second_start = np.where(num_words > 1, start[np.minimum(first_word + 1, len(start) - 1)], row_end)
    edges: Ints = (second_start - row_start) + (row_end - start[np.minimum(last, len(start) - 1)])
    return edges


def _draw_lengths(
    num_words: Ints, num_tokens: Ints, edge_tokens: Ints, keys: Keys, settings: ExampleSettings
) -> tuple[Ints, Ints]:  # the row and the number of words of each span
    longest = settings.max_ngram if settings.masking == "ngram" else 1
    sizes = np.arange(1, longest + 1)
    chances = (1 / sizes) / (1 / sizes).sum()
    # In a row with fewer words than a span needs, the span is shorter: it is all of them.
    mean = np.minimum(sizes, np.maximum(num_words, 1)[:, None]) @ chances
    wanted = _words_for_tokens(num_words, num_tokens, edge_tokens, float(sizes @ chances), settings) / mean
    count = np.floor(wanted + uniform(derive(keys, Stream.SPAN_COUNT))).astype(np.int64)
    row = np.repeat(np.arange(len(num_words)), count)
    number = expand_ranges(np.zeros_like(count), count)
    draw = uniform(derive(derive(keys[row], Stream.SPAN_LENGTH), number))
    length = 1 + np.searchsorted(np.cumsum(chances)[:-1], draw, side="right")
    return row, np.minimum(length, num_words[row])


def _words_for_tokens(
    num_words: Ints, num_tokens: Ints, edge_tokens: Ints, mean: float, settings: ExampleSettings
) -> NDArray[np.float64]:
    """Compute how many words to cover so that `mask_share` of the *tokens* is covered.

    Two effects are corrected: the first and the last word of a row are covered less often than others, since
    spans can reach them only from one side, and they have other sizes, as the last includes the period.
    """
    share = settings.mask_share
    if settings.masking == "token":
        return share * num_words.astype(np.float64)
    # How much less often an edge is covered: it is covered if the smallest slack is 0, and slacks range over
    # the words that the spans and the gaps between them leave in the row.
    rarer = 1 - num_words / mean / (num_words * (1 - share - share / mean) + 2)
    is_long = num_words >= 4
    words = np.where(is_long, num_words - 2 * rarer, num_words)
    tokens = np.where(is_long, num_tokens - rarer * edge_tokens, num_tokens)
    wanted: NDArray[np.float64] = share * num_tokens * words / np.maximum(tokens, 1)
    return wanted


def replace_tokens(ids: Ints, masked: Ints, keys: Keys, table: TokenTable, settings: ExampleSettings) -> Ints:
    """Draw the replacements of masked tokens: mostly [MASK], else a random token or the token itself."""
    draw = uniform(derive(keys, Stream.REPLACEMENT))
    random_ids = table.ordinary[below(derive(keys, Stream.RANDOM_TOKEN), len(table.ordinary))]
    random_share = settings.replace_with_mask + settings.replace_with_random
    kept = np.where(draw < random_share, random_ids, ids[masked])
    return np.where(draw < settings.replace_with_mask, table.mask_id, kept)
