"""A paragraph comes in, the spans of its sentences go out; only the white space between them is left out.

One pattern finds whatever may end a sentence, and cheap looks at the words on both sides decide. No look
goes back beyond the start of the sentence, nor further than a few words, so the time is linear in the text.
"""

import re
from collections.abc import Iterator

from albert.text.encoding import Span
from albert.text.sentence_rules import SentenceRules, find_rules

# What may end a sentence, in any script: Latin and Chinese marks, Arabic, Urdu, Devanagari, Burmese, Khmer,
# Armenian, Ethiopic, Tibetan.
SENTENCE_MARKS = ".!?…。！？｡．؟۔।॥။។៕։።፧།‼⁇⁈⁉"
# Those of scripts that put no space behind them, or not always.
_UNSPACED_MARKS = frozenset("।॥။។៕།")
_QUOTES = frozenset("\"'”’“‘«»‹›」』")
_FULL_WIDTH = frozenset("。！？｡．")
_GOES_ON = frozenset(".!?…。！？,;:，、；：)]}）」』”%/")
_FIRST_CJK = "\u2e80"
_WINDOW = 24  # characters, of which the word before a full stop is the last


def _compile(*, is_ascii: bool, spaced_quotes: bool) -> re.Pattern[str]:
    """Marks and the brackets and quotes they close; group 1 is the space behind, 2 the next letter or mark.

    Every part after the first mark may be missing, so the pattern never fails and never looks at a run of
    marks twice. For ASCII a smaller set of marks finds the same, sooner.
    """
    marks = "[.!?]+" if is_ascii else f"[{SENTENCE_MARKS}]+"
    closing = r"""["')\]}_*]*""" if is_ascii else r"""["'”’)\]}」』】》〉）］_*]*"""
    # A quotation mark that opens in one language closes in another: here it closes if space follows.
    either = "" if is_ascii else rf"(?:[“‘«‹»›]{closing}(?=\s|$))?"
    spaced = rf"(?:\s{{1,2}}»{closing})?" if spaced_quotes and not is_ascii else ""
    notes = r"(?:\[\d{1,3}\]){0,3}"
    opening = r"""[\s"'“”„‚‘’«»‹›(\[{¿¡—–\-_*#•「『《〈【（]*"""
    return re.compile(rf"{marks}{closing}{either}{spaced}{notes}(?=(\s*){opening}(\S?))")


_CANDIDATE = {
    (is_ascii, spaced_quotes): _compile(is_ascii=is_ascii, spaced_quotes=spaced_quotes)
    for is_ascii in (False, True)
    for spaced_quotes in (False, True)
}
_BREAK = re.compile(r"[^\w.]|_")
_WORD = re.compile(r"[^\W\d_]{1,20}")
_ROMAN = re.compile(r"[IVXLC]{1,7}")
_SPEAKER = re.compile(r"(?:[A-Z][\w’'-]{0,20}\.?\s){1,3}(?:\w{2,12}ly\s)?([a-z]{2,12})\b")
_CHINESE_SPEAKER = re.compile(
    r"[的之就便]|然后|[^。！？，、；：“”…\s]{0,8}[说說道问問答喊叫嚷想笑](?:道|着|了)?[，。：；,]"
)


def split_sentences(text: str, *, language: str = "en") -> list[Span]:
    """The sentences of a paragraph, as ranges of its characters; a line end counts as a space.

    `language` is en, de, fr, zh, or xx for any other; another code is refused.
    """
    rules = find_rules(language)
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    spans: list[Span] = []
    for match in _CANDIDATE[text.isascii(), rules.has_spaced_quotes].finditer(text):
        if match[2] and _is_end(text, start, match, rules):
            stop, begin = match.span(1)
            spans.append((start, stop))
            start = begin
    if start < end:
        spans.append((start, end))
    return spans


def iter_sentences(text: str, *, language: str = "en") -> Iterator[str]:
    """The sentences themselves."""
    return (text[start:stop] for start, stop in split_sentences(text, language=language))


def _is_end(text: str, start: int, match: re.Match[str], rules: SentenceRules) -> bool:
    """Whether the sentence that began at `start` ends with the match."""
    mark, (stop, begin), following = match.start(), match.span(1), match[2]
    first = text[mark]
    if following in _GOES_ON and begin == match.start(2):
        return False
    if mark - start < 4 and not any(map(str.isalnum, text[start:mark])):
        return False  # "… and so on": nothing was said yet
    if first in _FULL_WIDTH:
        return _is_chinese_end(text, match)
    if first in _UNSPACED_MARKS:
        return True
    if begin == stop and not (first == "." and following.isupper() and _is_dash(text, stop)):
        return following >= _FIRST_CJK and _is_unspaced_end(text, match)
    if first == "." and text[mark + 1] not in ".!?…":
        return _is_stop_end(text, start, match, rules)
    if following.islower():
        # Oh! what a day. But one who begins with a small letter goes on with small letters.
        return first in "!?" and text[stop - 1] not in _QUOTES and _begins_small(text, start)
    if text[mark - 1] in "([" and text[stop - 1] in ")]":
        return False  # (!)
    return not (rules.speech_verbs and text[stop - 1] in _QUOTES and _is_speaker(text, begin, rules))


def _is_stop_end(text: str, start: int, match: re.Match[str], rules: SentenceRules) -> bool:
    """The same for a single full stop, by the word before it."""
    mark, is_small = match.start(), match[2].islower()
    low = start if mark - start < _WINDOW else mark - _WINDOW
    space = text.rfind(" ", low, mark)
    word = text[space + 1 if space >= 0 else low : mark]
    if not word.isalnum():
        word = _BREAK.split(word)[-1]
        if len(word) == 1 and word.islower() and text[mark - 2] in "'’":
            return not is_small  # his aunt's
    key = word.lower() if len(word) > 1 else word
    is_short = key in rules.abbreviations or len(word) < 2 or not word.isalpha() or word.isupper()
    if is_short and (verdict := _judge_short(text, start, match, word, rules)) is not None:
        return verdict
    # A missing capital, if it is a plain word that ends here.
    return not is_small or (
        len(word) > 1 and word.islower() and word.isalpha() and text[match.end() - 1] not in _QUOTES
    )


def _judge_short(text: str, start: int, match: re.Match[str], word: str, rules: SentenceRules) -> bool | None:
    """The same after an abbreviation, an initial or a number; None if it is none of them."""
    key, following = word.lower() if len(word) > 1 else word, match[2]
    if key in rules.never:
        return False
    if key in rules.before_number:
        return not following.islower() and not following.isdigit()
    if word.isdigit():
        return not following.islower() and not _is_ordinal(text, start, match, word, rules)
    if key in rules.seldom or _is_initial(word) or (rules.has_ordinals and _ROMAN.fullmatch(word)):
        return _begins_with_starter(text, start, match, word, rules)
    return None


def _is_initial(word: str) -> bool:
    """J, U.S, p.m, Ph.D; not example.com or 3.5."""
    tail = word.rpartition(".")[2]
    return tail.isalpha() and (len(word) == 1 or (len(tail) < 3 and len(tail) < len(word)))


def _begins_with_starter(
    text: str, start: int, match: re.Match[str], word: str, rules: SentenceRules
) -> bool:
    """Whether what follows an abbreviation can hardly be its continuation."""
    mark, at = match.start(), match.start(2)
    found = _WORD.match(text, at)
    if found is None or (len(found[0]) == 1 and text[at + 1 : at + 2] == "."):
        return False  # one more initial
    if word == "I" and "I" in rules.starters and mark - start > 2:
        return found[0][0].isupper()  # so did I
    if (
        len(word) == 1
        and mark - start > 4
        and re.fullmatch(r"[a-z]\.\s?", text[mark - 4 : mark - 1].lstrip())
    ):
        return False  # z. B.
    return found[0] in rules.starters


def _is_ordinal(text: str, start: int, match: re.Match[str], number: str, rules: SentenceRules) -> bool:
    """Whether "3." counts: an item of a list, or a German third."""
    at = match.start() - len(number)
    if at == start:
        return len(number) <= 3
    if not rules.has_ordinals or len(number) > 3:
        return False
    if match[2].isdigit():
        return True
    found = _WORD.match(text, match.start(2))
    before = text[max(start, at - _WINDOW) : at].split()
    return (found is not None and found[0] in rules.months) or (
        bool(before) and before[-1].lower() in rules.ordinal_cues
    )


def _is_speaker(text: str, begin: int, rules: SentenceRules) -> bool:
    """Whether a name and a verb of speech follow a quotation: "Who?" Tom asked."""
    found = _SPEAKER.match(text, begin)
    if found is None or found[1] not in rules.speech_verbs:
        return False
    name = text[begin : begin + 24].split()[0]
    return name == "I" or name not in rules.starters


def _begins_small(text: str, start: int) -> bool:
    return text[start : start + 4].lstrip("\"'“‘«„»— (")[:1].islower()


def _is_dash(text: str, at: int) -> bool:
    return text[at] in "—–" or text.startswith("--", at)


def _is_unspaced_end(text: str, match: re.Match[str]) -> bool:
    """Western marks in Chinese: ? and ! end, a dot does after Chinese, dots do only where they close."""
    mark, stop = match.span()
    if text[mark] == "." and text[mark + 1] != ".":
        return mark > 0 and text[mark - 1] >= _FIRST_CJK and _is_chinese_end(text, match)
    closes = text[stop - 1] not in ".…"
    return closes and _is_chinese_end(text, match)


def _is_chinese_end(text: str, match: re.Match[str]) -> bool:
    """Marks of full width end a sentence, unless a quotation goes on with its speaker."""
    stop, begin = match.span(1)
    return text[stop - 1] not in _QUOTES or _CHINESE_SPEAKER.match(text, begin) is None
