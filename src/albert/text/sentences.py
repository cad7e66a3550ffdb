"""Split paragraphs into sentences.

A pattern finds possible sentence ends, and rules on the words around them decide. No rule looks back beyond
the start of the sentence or further than a few words, so that the time is linear in the text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from albert.errors import InputError
from albert.text.tokenizer import Span

# Marks that may end a sentence: Latin, Chinese, Arabic, Urdu, Devanagari, Burmese, Khmer, Armenian, Ethiopic
# and Tibetan.
SENTENCE_MARKS = ".!?…。！？｡．؟۔।॥။។៕։።፧།‼⁇⁈⁉"
# Marks of scripts in which a space does not always follow.
_UNSPACED_MARKS = frozenset("।॥။។៕།")
_QUOTES = frozenset("\"'”’“‘«»‹›」』")
_FULL_WIDTH = frozenset("。！？｡．")
_CONTINUATIONS = frozenset(".!?…。！？,;:，、；：)]}）」』”%/")
_FIRST_CJK = "\u2e80"
_WINDOW = 24  # characters to search for the word before a period


def _compile(*, is_ascii: bool, spaced_quotes: bool) -> re.Pattern[str]:
    """Compile a pattern for marks with closing brackets and quotes. Groups: 1 space, 2 next letter or mark.

    All parts after the first mark are optional, so that the pattern never backtracks over a run of marks.
    The pattern for ASCII is faster.
    """
    marks = "[.!?]+" if is_ascii else f"[{SENTENCE_MARKS}]+"
    closing = r"""["')\]}_*]*""" if is_ascii else r"""["'”’)\]}」』】》〉）］_*]*"""
    # A quotation mark that opens in one language closes in another; here it closes if a space follows.
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


@dataclass(frozen=True, slots=True)
class SentenceRules:
    """The words of a language that decide whether a period ends a sentence.

    No sentence ends after an abbreviation in `never`, nor after one in `before_number` if a number follows.
    After one in `seldom`, an initial or a dotted abbreviation (U.S.), a sentence ends only before `starters`,
    words that are rarely names. `speech_verbs` follow a speaker's name after a quotation. With
    `has_ordinals`, "3." means "third" after `ordinal_cues` and before `months`.
    """

    never: frozenset[str]
    before_number: frozenset[str]
    seldom: frozenset[str]
    starters: frozenset[str] = frozenset()
    speech_verbs: frozenset[str] = frozenset()
    has_ordinals: bool = False
    ordinal_cues: frozenset[str] = frozenset()
    months: frozenset[str] = frozenset()
    has_spaced_quotes: bool = False
    abbreviations: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "abbreviations", self.never | self.before_number | self.seldom)


def split_sentences(text: str, *, language: str = "en") -> list[Span]:
    """Return the span of each sentence; `language` is en, de, fr, zh, or xx for any other."""
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
    """Yield the sentences of a paragraph."""
    return (text[start:stop] for start, stop in split_sentences(text, language=language))


def _is_end(text: str, start: int, match: re.Match[str], rules: SentenceRules) -> bool:
    """Return whether the sentence that begins at `start` ends with the match."""
    mark, (stop, begin), following = match.start(), match.span(1), match[2]
    first = text[mark]
    if following in _CONTINUATIONS and begin == match.start(2):
        return False
    if mark - start < 4 and not any(map(str.isalnum, text[start:mark])):
        return False  # the sentence has no word yet: "… and so on"
    if first in _FULL_WIDTH:
        return _is_chinese_end(text, match)
    if first in _UNSPACED_MARKS:
        return True
    is_dash = text.startswith(("—", "–", "--"), stop)
    if begin == stop and not (first == "." and following.isupper() and is_dash):
        return following >= _FIRST_CJK and _is_unspaced_end(text, match)
    if first == "." and text[mark + 1] not in ".!?…":
        return _is_period_end(text, start, match, rules)
    if following.islower():
        # "Oh! what a day" is one sentence, unless the text has no capitals at the start of sentences.
        is_lower = text[start : start + 4].lstrip("\"'“‘«„»— (")[:1].islower()
        return first in "!?" and text[stop - 1] not in _QUOTES and is_lower
    if text[mark - 1] in "([" and text[stop - 1] in ")]":
        return False  # (!)
    return not (rules.speech_verbs and text[stop - 1] in _QUOTES and _is_speaker(text, begin, rules))


def _is_period_end(text: str, start: int, match: re.Match[str], rules: SentenceRules) -> bool:
    """Return whether a single period ends the sentence, by the word before it."""
    mark, is_lower = match.start(), match[2].islower()
    low = start if mark - start < _WINDOW else mark - _WINDOW
    space = text.rfind(" ", low, mark)
    word = text[space + 1 if space >= 0 else low : mark]
    if not word.isalnum():
        word = _BREAK.split(word)[-1]
        if len(word) == 1 and word.islower() and text[mark - 2] in "'’":
            return not is_lower  # his aunt's
    key = word.lower() if len(word) > 1 else word
    is_short = key in rules.abbreviations or len(word) < 2 or not word.isalpha() or word.isupper()
    if is_short and (is_end := _is_short_end(text, start, match, word, rules)) is not None:
        return is_end
    # Before a lower-case letter, only after a plain word: a capital is missing.
    return not is_lower or (
        len(word) > 1 and word.islower() and word.isalpha() and text[match.end() - 1] not in _QUOTES
    )


def _is_short_end(
    text: str, start: int, match: re.Match[str], word: str, rules: SentenceRules
) -> bool | None:
    """Return whether an abbreviation, initial or number ends the sentence; None for other words."""
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
    """Return True for J, U.S, p.m or Ph.D, and False for example.com or 3.5."""
    tail = word.rpartition(".")[2]
    return tail.isalpha() and (len(word) == 1 or (len(tail) < 3 and len(tail) < len(word)))


def _begins_with_starter(
    text: str, start: int, match: re.Match[str], word: str, rules: SentenceRules
) -> bool:
    """Return whether the text after an abbreviation begins a sentence."""
    mark, at = match.start(), match.start(2)
    found = _WORD.match(text, at)
    if found is None or (len(found[0]) == 1 and text[at + 1 : at + 2] == "."):
        return False  # one more initial
    if word == "I" and "I" in rules.starters and mark - start > 2:
        return found[0][0].isupper()  # so did I
    before = text[mark - 4 : mark - 1].lstrip()
    if len(word) == 1 and mark - start > 4 and re.fullmatch(r"[a-z]\.\s?", before):
        return False  # z. B.
    return found[0] in rules.starters


def _is_ordinal(text: str, start: int, match: re.Match[str], number: str, rules: SentenceRules) -> bool:
    """Return whether "3." is the number of a list item, or a German ordinal."""
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
    """Return whether a name and a verb of speech follow a quotation, as in "Who?" Tom asked."""
    found = _SPEAKER.match(text, begin)
    if found is None or found[1] not in rules.speech_verbs:
        return False
    name = text[begin : begin + 24].split()[0]
    return name == "I" or name not in rules.starters


def _is_unspaced_end(text: str, match: re.Match[str]) -> bool:
    """Return whether Western marks end a Chinese sentence: dots only after Chinese or before a quote."""
    mark, stop = match.span()
    is_dot = text[mark] == "." and text[mark + 1] != "."
    closes = text[mark - 1 : mark] >= _FIRST_CJK if is_dot else text[stop - 1] not in ".…"
    return closes and _is_chinese_end(text, match)


def _is_chinese_end(text: str, match: re.Match[str]) -> bool:
    """Return whether a full-width mark ends a sentence: not if the speaker of a quotation follows."""
    stop, begin = match.span(1)
    return text[stop - 1] not in _QUOTES or _CHINESE_SPEAKER.match(text, begin) is None


# The rules of each language. Abbreviations are in lower case, without the last period.


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ENGLISH = SentenceRules(
    never=_words(
        "M mr mrs ms messrs mssrs dr drs prof profs rev revd hon rt capt col gen lt lieut sgt sergt cpl "
        "maj adm cmdr comdr gov sen pres supt insp fr mme mlle mlles mgr mons sra mt ft pte pvt vs viz cf "
        "e.g i.e eg ie approx ca dept univ assn intl natl nos pp incl excl"
    ),
    before_number=_words(
        "no p vol vols ch chap chaps fig figs art sec sect par para eq app ex pt bk pl rm apt ext op ff "
        "etc cent"
    ),
    seldom=_words(
        "st sr jr esq co cos inc ltd corp bros plc al ibid eds trans ave blvd rd hwy sq jan feb febr apr "
        "jul aug sept oct nov dec mon tue tues thu thur thurs fri a.m p.m ph.d m.d b.c a.d oz lb lbs ft "
        "hrs mins secs yrs calif conn ariz colo fla kan ky minn tenn wis doz"
    ),
    starters=_words(
        "The A An He She It We You They I This That These Those There Here But And Or So Then When While "
        "What Who Why How Where Which If In On At As After Before Since For From With Without His Her Its "
        "Our Their My Your Not Now Yes Well Oh Perhaps Once One Some Such Still Yet Thus However "
        "Nevertheless Meanwhile Although Though Because Until By To Both Each Every All Many Most Let Did "
        "Does Is Was Were Are Has Have Had Can Could Would Should No Nobody Nothing Somebody Something "
        "Someone Everyone Everything Another Two Three Suddenly Finally Soon Later Again Never Even Only "
        "Just Today Yesterday"
    ),
    speech_verbs=_words(
        "said asked cried replied answered exclaimed whispered shouted muttered murmured called added "
        "returned continued inquired enquired demanded remarked observed repeated thought began "
        "interrupted screamed yelled gasped sighed growled ejaculated responded rejoined retorted "
        "suggested laughed says asks roared snapped sobbed groaned faltered stammered protested wondered "
        "queried interposed echoed"
    ),
)

_GERMAN = SentenceRules(
    never=_words(
        "dr dres prof fa hr hrn fr frl dipl ing med phil jur rer nat theol hl bzw ca vgl sog evtl ggf inkl "
        "exkl zzgl abzgl geb gest verh gesch ehem bez betr bzgl mind ebd hrsg hg bsp spez insb insbes allg "
        "lt vorm nachm röm griech lat engl frz franz dt österr schweiz kath evang ev einschl entspr zw zus "
        "wg freiherr mr mrs mme mlle z.b d.h u.a z.t i.d.r"
    ),
    before_number=_words("nr nrn bd bde abb tab kap art abs ziff max pos seite zi vers fig hausnr anm no"),
    seldom=_words(
        "st usw etc usf dgl std min sek mio mrd tsd abt aufl ausg jg jh jhd jhdt jahrh chr str tel jan feb "
        "febr mrz apr aug sept sep okt nov dez jr sen jun gebr kgl kais nachf verl verf übers resp gmbh "
        "inc co"
    ),
    starters=_words(
        "Der Die Das Dem Den Des Ein Eine Einer Einem Einen Er Sie Es Wir Ihr Ich Du Man Dieser Diese "
        "Dieses Diesen Diesem Jener Jene Und Aber Doch Oder Denn Sondern Da Dann Dort Hier Nun Jetzt So "
        "Als Wenn Weil Während Nachdem Bevor Obwohl Obgleich Damit Danach Dabei Dadurch Daher Deshalb "
        "Deswegen Darum Darauf Daraufhin Dagegen Trotzdem Dennoch Jedoch Auch Noch Nur Schon Erst In Im Am "
        "An Auf Aus Bei Beim Mit Nach Von Vom Vor Zu Zum Zur Unter Über Durch Für Gegen Ohne Um Seit Bis "
        "Was Wer Wie Wo Warum Wann Welche Welcher Mein Meine Dein Sein Seine Ihre Unser Unsere Kein Keine "
        "Alle Alles Nicht Nichts Niemand Jemand Ja Nein Vielleicht Plötzlich Endlich Später Zuerst Bald "
        "Sogar Heute Gestern Morgen Einige Viele Zwei Drei"
    ),
    has_ordinals=True,
    ordinal_cues=_words(
        "der die das dem den des am im vom zum zur beim ein eine einen einem einer jeder jede jedes jeden "
        "jedem dieser diese dieses diesen diesem ins ans bis und seit ab nach vor sein seine seinen seinem "
        "seiner ihr ihre ihren ihrem ihrer mein meine meinen meinem unser unsere unserem unserer euer "
        "zweite als"
    ),
    months=_words(
        "Januar Jänner Jan Februar Feber Feb März Mrz April Apr Mai Juni Jun Juli Jul August Aug September "
        "Sept Sep Oktober Okt November Nov Dezember Dez Jahrhundert Jahrhunderts Jahrhunderte Jh Jhd "
        "Jahrestag Kapitel Klasse Stock Geburtstag"
    ),
)

_FRENCH = SentenceRules(
    never=_words(
        "M mm mr mgr dr drs pr prof mme mlle mmes mlles ste cf env av apr c.-à-d p.ex tél boul bd prés gén "
        "col capt lt cdt"
    ),
    before_number=_words("no pp vol chap art fig tom sect par ill ex sept ch num réf ann etc fr frs cts"),
    seldom=_words(
        "st ibid id éd éds coll trad dir janv févr avr juil oct nov déc hab min cie sté ltd jr sr suiv"
    ),
    starters=_words(
        "Le La Les L Un Une Des Du De D Il Elle Ils Elles On Nous Vous Je J Tu Ce C Cet Cette Ces Cela Ça "
        "Mon Ma Mes Ton Ta Tes Son Sa Ses Notre Nos Votre Vos Leur Leurs Et Mais Ou Or Donc Car Puis Alors "
        "Ensuite Enfin Ainsi Aussi Quand Lorsque Comme Si S Pendant Après Avant Depuis Dans En Sur Sous "
        "Par Pour Sans Avec Chez Vers À A Au Aux Que Qu Qui Quoi Où Pourquoi Comment Quel Quelle Non Oui "
        "Pourtant Cependant Toutefois Tout Tous Toute Toutes Rien Personne Jamais Toujours Soudain Bientôt "
        "Plus N Ne Y Deux Trois"
    ),
    has_spaced_quotes=True,
)

# Chinese texts contain English names, and end their own sentences with another mark.
_CHINESE = SentenceRules(never=_ENGLISH.never, before_number=_ENGLISH.before_number, seldom=_ENGLISH.seldom)

_ANY = SentenceRules(
    never=_words("mr mrs ms dr prof e.g i.e vs cf ca"),
    before_number=_words("no nr vol fig p pp art ch"),
    seldom=_words("st jr sr etc co ltd inc a.m p.m"),
)

RULES = {"en": _ENGLISH, "de": _GERMAN, "fr": _FRENCH, "zh": _CHINESE, "xx": _ANY}


def find_rules(language: str) -> SentenceRules:
    """Return the rules of a language code such as `en` or `en-GB`."""
    rules = RULES.get(language) or RULES.get(language.replace("_", "-").split("-")[0].lower())
    if rules is None:
        raise InputError(f"unknown language {language!r}; choose from {', '.join(RULES)} (xx is any other)")
    return rules
