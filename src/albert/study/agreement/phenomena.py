"""What is asked, by name: random numbers come in, the sentences of one frame of that phenomenon go out.

After Linzen et al. (2016), Marvin and Linzen (2018) and Warstadt et al. (2020), with words and frames of our
own. Clauses between a subject and its verb are in the past tense, which has no number, so that the subject
alone tells it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from types import MappingProxyType

from albert.study.agreement import lexicon
from albert.study.agreement.grammar import Draft, inflect, mirror
from albert.study.agreement.lexicon import Noun, Predicate

Frame = tuple[Draft, ...]


@dataclass(frozen=True)
class Phenomenon:
    """`is_subject_verb` marks agreement of subject and verb; a frame has `num_drafts` sentences."""

    title: str
    build: Callable[[Random], Frame]
    num_drafts: int = 2
    is_subject_verb: bool = False


def _join(*words: str) -> str:
    """The words that are there, with spaces between them."""
    return " ".join(word for word in words if word)


def _describe(draws: Random) -> str:
    """An adjective for a person, or nothing."""
    return draws.choice(("", *lexicon.PERSON_ADJECTIVES))


def _agree(draws: Random, pattern: str, *, head: int = 0) -> Frame:
    """Two people, and what one of them does."""
    nouns, choice = draws.sample(lexicon.PEOPLE, 2), draws.choice(lexicon.PERSON_PREDICATES)
    return inflect(pattern, nouns=nouns, head=head, choice=choice)


def _simple(draws: Random) -> Frame:
    pattern, noun = _join("The", _describe(draws), "{0}"), draws.choice(lexicon.PEOPLE)
    return inflect(pattern, nouns=[noun], head=0, choice=draws.choice(lexicon.PERSON_PREDICATES))


def _prepositional(draws: Random) -> Frame:
    if draws.random() < 0.5:
        return _agree(draws, _join("The", _describe(draws), "{0}", draws.choice(lexicon.NEARNESS), "the {1}"))
    relation, choice = draws.choice(lexicon.RELATIONS), draws.choice(lexicon.THING_PREDICATES)
    nouns = [relation.head, draws.choice(relation.others)]
    return inflect(_join("The {0}", relation.preposition, "the {1}"), nouns=nouns, head=0, choice=choice)


def _two_prepositionals(draws: Random) -> Frame:
    owner, person = draws.sample(lexicon.PEOPLE, 2)
    relation = draws.choice(lexicon.RELATIONS)
    other = draws.choice(relation.others)
    if draws.random() < 0.5:
        first, word, predicates = person, draws.choice(lexicon.NEARNESS), lexicon.PERSON_PREDICATES
    else:
        first, word, predicates = relation.head, relation.preposition, lexicon.THING_PREDICATES
    pattern = _join("The {0}", word, "the {1} of the {2}")
    return inflect(pattern, nouns=[first, other, owner], head=0, choice=draws.choice(predicates))


def _subject_relative(draws: Random) -> Frame:
    word, verb = draws.choice(("who", "that")), draws.choice(lexicon.PERSON_VERBS)
    return _agree(draws, _join("The {0}", word, verb, "the {1}"))


def _object_relative(draws: Random, *, word: str = "that") -> Frame:
    if draws.random() < 0.5:
        return _agree(draws, _join("The {0}", word, "the {1}", draws.choice(lexicon.PERSON_VERBS)))
    pattern = _join("The {0}", word, "the {1}", draws.choice(lexicon.THING_VERBS))
    nouns = [draws.choice(lexicon.THINGS), draws.choice(lexicon.PEOPLE)]
    return inflect(pattern, nouns=nouns, head=0, choice=draws.choice(lexicon.THING_PREDICATES))


def _bare_object_relative(draws: Random) -> Frame:
    return _object_relative(draws, word="")


def _inside_relative(draws: Random) -> Frame:
    nouns = [draws.choice(lexicon.THINGS), draws.choice(lexicon.PEOPLE)]
    choice = draws.choice(lexicon.RELATIVE_PREDICATES)
    choice = replace(choice, rest=_join(choice.rest, draws.choice(lexicon.RELATIVE_ENDS)))
    return inflect("The {0} that the {1}", nouns=nouns, head=1, choice=choice)


def _complement(draws: Random) -> Frame:
    return _agree(draws, _join("The {0}", draws.choice(lexicon.SAYING_VERBS), "that the {1}"), head=1)


def _coordination(draws: Random) -> Frame:
    return _agree(draws, _join("The {0}", draws.choice(lexicon.PERSON_VERBS), "the {1} and"))


def _quantified(draws: Random) -> Frame:
    """`Each of the boys was` and `Both of the boys were`: the plural noun is beside the verb in both.

    It is not counted as an attractor: among the pairs with one, the singular would be right more often.
    """
    choice, people = draws.choice(lexicon.PERSON_PREDICATES), draws.choice(lexicon.PEOPLE).plural
    one, many = draws.choice(lexicon.SINGULAR_QUANTIFIERS), draws.choice(lexicon.PLURAL_QUANTIFIERS)
    sides = ((f"{word} of the {people}", choice.rest) for word in (one, many))
    drafts = mirror(*sides, words=(choice.singular, choice.plural))
    return tuple(replace(draft, distance=3) for draft in drafts)


def _draw_gendered(draws: Random) -> tuple[Noun, str]:
    gender = draws.randrange(2)
    return draws.choice(lexicon.COUPLES)[gender], ("himself", "herself")[gender]


def _reflexive(draws: Random) -> Frame:
    noun, pronoun = _draw_gendered(draws)
    verb, rest = draws.choice(lexicon.REFLEXIVE_FRAMES)
    pattern, choice = _join("The", _describe(draws), "{0}", verb), Predicate(pronoun, "themselves", rest)
    return inflect(pattern, nouns=[noun], head=0, choice=choice)


def _reflexive_relative(draws: Random) -> Frame:
    noun, pronoun = _draw_gendered(draws)
    other = draws.choice([person for person in lexicon.PEOPLE if person != noun])
    verb, rest = draws.choice(lexicon.REFLEXIVE_FRAMES)
    pattern = _join("The {0} that the {1}", draws.choice(lexicon.PERSON_VERBS), verb)
    return inflect(pattern, nouns=[noun, other], head=0, choice=Predicate(pronoun, "themselves", rest))


def _reflexive_gender(draws: Random) -> Frame:
    couple, kind = draws.choice(lexicon.COUPLES), _describe(draws)
    verb, rest = draws.choice(lexicon.REFLEXIVE_FRAMES)
    sides = ((_join("The", kind, noun.singular, verb), rest) for noun in couple)
    drafts = mirror(*sides, words=("himself", "herself"))
    return tuple(replace(draft, distance=1) for draft in drafts)


def _draw_looking(draws: Random) -> tuple[str, Noun, str]:
    person = draws.choice(lexicon.PEOPLE).singular
    before = _join("The", person, draws.choice(lexicon.LOOKING_VERBS))
    return before, draws.choice(lexicon.THINGS), draws.choice(lexicon.ENDINGS)


def _determiner_noun(draws: Random, *, kind: str = "") -> Frame:
    before, noun, rest = _draw_looking(draws)
    sides = ((_join(before, word, kind), rest) for word in draws.choice(lexicon.DETERMINERS))
    drafts = mirror(*sides, words=(noun.singular, noun.plural))
    return tuple(replace(draft, distance=len(kind.split())) for draft in drafts)


def _determiner_adjective_noun(draws: Random) -> Frame:
    return _determiner_noun(draws, kind=draws.choice(lexicon.THING_ADJECTIVES))


def _determiner(draws: Random) -> Frame:
    """The determiner is asked for, with and without an adjective before its noun."""
    before, noun, rest = _draw_looking(draws)
    kind = draws.choice(("", *lexicon.THING_ADJECTIVES))
    sides = ((before, _join(kind, form, rest)) for form in (noun.singular, noun.plural))
    drafts = mirror(*sides, words=draws.choice(lexicon.DETERMINERS))
    return tuple(replace(draft, distance=len(kind.split())) for draft in drafts)


def _draw_deed(draws: Random) -> tuple[str, str]:
    person = _join(_describe(draws), draws.choice(lexicon.PEOPLE).singular)
    return person, draws.choice(lexicon.DEEDS)


def _licensor(draws: Random) -> Frame:
    """`No boy had ever …` and `Some boy or other had …`: `ever` wants the one, `or other` the other."""
    person, deed = _draw_deed(draws)
    sides = ("", f"{person} had ever {deed}"), ("", f"{person} or other had {deed}")
    return mirror(*sides, words=("no", "some"))


def _licensed(draws: Random) -> Frame:
    """`No boy had ever …` and `The boy had never …`."""
    person, deed = _draw_deed(draws)
    return mirror((f"No {person} had", deed), (f"The {person} had", deed), words=("ever", "never"))


def _case(draws: Random) -> Frame:
    person = draws.choice(lexicon.PEOPLE).singular
    subject = f"The {person} {draws.choice(lexicon.SAYING_VERBS)} that", f"had {draws.choice(lexicon.DEEDS)}"
    object_ = f"The {person} {draws.choice(lexicon.PERSON_VERBS)}", draws.choice(lexicon.PLACES)
    return mirror(subject, object_, words=draws.choice(lexicon.CASES))


def _participle(draws: Random) -> Frame:
    person = draws.choice(lexicon.PEOPLE).inflect(is_plural=draws.random() < 0.5)
    verb, adverb = draws.choice(lexicon.STRONG_VERBS), draws.choice(lexicon.ADVERBS)
    sides = ((_join("The", person, had, adverb), verb.rest) for had in ("had", ""))
    drafts = mirror(*sides, words=(verb.participle, verb.past))
    return tuple(replace(draft, distance=len(adverb.split())) for draft in drafts)


PHENOMENA: Mapping[str, Phenomenon] = MappingProxyType(
    {
        "simple": Phenomenon("verb: simple", _simple, 2, True),
        "prepositional": Phenomenon("verb: across a preposition", _prepositional, 4, True),
        "two_prepositionals": Phenomenon("verb: across two prepositions", _two_prepositionals, 8, True),
        "subject_relative": Phenomenon("verb: across a subject relative", _subject_relative, 4, True),
        "object_relative": Phenomenon("verb: across an object relative", _object_relative, 4, True),
        "bare_object_relative": Phenomenon("verb: … without “that”", _bare_object_relative, 4, True),
        "inside_relative": Phenomenon("verb: inside an object relative", _inside_relative, 4, True),
        "complement": Phenomenon("verb: in a complement", _complement, 4, True),
        "coordination": Phenomenon("verb: second of two", _coordination, 4, True),
        "quantified": Phenomenon("verb: each of, both of", _quantified, 2, True),
        "reflexive": Phenomenon("reflexive: number", _reflexive),
        "reflexive_relative": Phenomenon("reflexive: across a relative", _reflexive_relative, 4),
        "reflexive_gender": Phenomenon("reflexive: gender", _reflexive_gender),
        "determiner_noun": Phenomenon("noun after this, these", _determiner_noun),
        "determiner_adjective_noun": Phenomenon("noun after this + adjective", _determiner_adjective_noun),
        "determiner": Phenomenon("this or these", _determiner),
        "licensor": Phenomenon("polarity: no or some", _licensor),
        "licensed": Phenomenon("polarity: ever or never", _licensed),
        "case": Phenomenon("case: he or him", _case),
        "participle": Phenomenon("participle: seen or saw", _participle),
    }
)
