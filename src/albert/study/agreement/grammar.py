"""A pattern, nouns and a choice of words come in; the sentences of one frame go out, in every number.

A frame gives its sentences all at once, and each of its two words is the right one equally often: what is
frequent, or agrees with the noun that happens to be near, is right in one half and wrong in the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from albert.study.agreement.lexicon import Noun, Predicate


@dataclass(frozen=True)
class Draft:
    """A sentence with a gap: what stands before it, the right and the wrong word, and what follows.

    `num_attractors` counts the other nouns before the gap that have the other number; `distance` the words
    between the one that decides and the gap.
    """

    before: str
    good: str
    bad: str
    after: str
    num_attractors: int = 0
    distance: int = 0


def inflect(pattern: str, *, nouns: Sequence[Noun], head: int, choice: Predicate) -> tuple[Draft, ...]:
    """One draft for each combination of numbers; noun `head` decides which form of `choice` is right.

    `{0}`, `{1}` … in the pattern are the nouns: `The {0} that knew the {1}`.
    """
    distance = len(pattern.split(f"{{{head}}}")[1].split())
    drafts = []
    for numbers in product((False, True), repeat=len(nouns)):
        forms = [noun.inflect(is_plural=number) for noun, number in zip(nouns, numbers, strict=True)]
        good, bad = order_forms(choice, is_plural=numbers[head])
        num_attractors = sum(number != numbers[head] for number in numbers)
        drafts.append(Draft(pattern.format(*forms), good, bad, choice.rest, num_attractors, distance))
    return tuple(drafts)


def order_forms(choice: Predicate, *, is_plural: bool) -> tuple[str, str]:
    """The form of that number, and the other one."""
    return (choice.plural, choice.singular) if is_plural else (choice.singular, choice.plural)


def mirror(first: tuple[str, str], second: tuple[str, str], *, words: tuple[str, str]) -> tuple[Draft, Draft]:
    """Two sentences, each as (before, after): the first wants the first word, the second the other one."""
    one, other = words
    return Draft(first[0], one, other, first[1]), Draft(second[0], other, one, second[1])
