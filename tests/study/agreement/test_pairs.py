"""The grammar: pairs differ in one word, none is there twice, and no rule about single words decides them."""

import re
from collections import Counter
from random import Random

import pytest

from albert.errors import SettingsError
from albert.settings import build_settings
from albert.study.agreement import lexicon
from albert.study.agreement.pairs import Pair, format_pairs, generate_pairs
from albert.study.agreement.phenomena import PHENOMENA
from albert.study.agreement.settings import AgreementSettings
from albert.training.recipes import RecipeShelf

SETTINGS = AgreementSettings()
# One noun besides the subject stands before the verb or the pronoun.
WITH_ATTRACTOR = [name for name, each in PHENOMENA.items() if each.num_drafts == 4]


@pytest.fixture(scope="module")
def pairs() -> tuple[Pair, ...]:
    return generate_pairs(SETTINGS)


def select(pairs: tuple[Pair, ...], name: str) -> list[Pair]:
    return [pair for pair in pairs if pair.phenomenon == name]


def test_each_phenomenon_has_as_many_pairs_as_asked(pairs):
    assert Counter(pair.phenomenon for pair in pairs) == dict.fromkeys(PHENOMENA, 200)
    assert len(PHENOMENA) == 20


def test_the_sentences_of_a_pair_differ_in_one_word(pairs):
    for pair in pairs:
        good, bad = pair.good.split(), pair.bad.split()
        differing = [place for place, words in enumerate(zip(good, bad, strict=True)) if len(set(words)) > 1]
        assert len(differing) == 1
        assert good[differing[0]].lower() == pair.draft.good.lower()
        assert bad[differing[0]].lower() == pair.draft.bad.lower()
        assert pair.good[pair.start :].lower().startswith(f"{pair.draft.good.lower()} ")


def test_sentences_look_like_sentences(pairs):
    for pair in pairs:
        for text in (pair.good, pair.bad):
            assert text[0].isupper()
            assert text.endswith(".")
            assert "  " not in text
            assert "{" not in text


def test_no_pair_is_there_twice(pairs):
    assert len({(pair.good, pair.bad) for pair in pairs}) == len(pairs)
    assert not {pair.good for pair in pairs} & {pair.bad for pair in pairs}


def test_the_same_seed_gives_the_same_pairs():
    assert generate_pairs(SETTINGS) == generate_pairs(SETTINGS)
    assert generate_pairs(AgreementSettings(seed=1)) != generate_pairs(SETTINGS)


def test_every_machine_draws_the_same(pairs):
    assert pairs[0].choice == "The visitor [takes | take] no notice of it."


def test_a_phenomenon_left_out_changes_no_other(pairs):
    alone = generate_pairs(AgreementSettings(phenomena=("case", "simple")))
    assert list(alone) == [*select(pairs, "case"), *select(pairs, "simple")]


@pytest.mark.parametrize("name", PHENOMENA)
def test_each_word_of_a_choice_is_right_as_often_as_the_other(pairs, name):
    choices = Counter((pair.draft.good, pair.draft.bad) for pair in select(pairs, name))
    assert all(choices[bad, good] == count for (good, bad), count in choices.items())


@pytest.mark.parametrize("name", PHENOMENA)
def test_whoever_goes_by_frequency_is_right_in_half_of_the_pairs(pairs, name):
    for seed in range(5):
        draws = Random(seed)
        frequencies: dict[str, float] = {}
        is_right = []
        for pair in select(pairs, name):
            good, bad = (
                frequencies.setdefault(word, draws.random()) for word in (pair.draft.good, pair.draft.bad)
            )
            is_right.append(good > bad)
        assert sum(is_right) == 100


@pytest.mark.parametrize("name", WITH_ATTRACTOR)
def test_whoever_goes_by_the_other_noun_is_right_in_half_of_the_pairs(pairs, name):
    counts = Counter((pair.draft.good, pair.draft.num_attractors) for pair in select(pairs, name))
    for word in {word for word, _ in counts}:
        assert counts[word, 0] == counts[word, 1], word


@pytest.mark.parametrize("name", ["num_attractors", "distance"])
def test_frequency_is_no_help_at_any_number_of_attractors_or_distance(pairs, name):
    choices = Counter((getattr(p.draft, name), p.draft.good, p.draft.bad) for p in pairs)
    assert all(choices[number, bad, good] == count for (number, good, bad), count in choices.items())


def test_two_nouns_between_are_like_the_subject_or_not_in_every_way(pairs):
    counts = Counter(pair.draft.num_attractors for pair in select(pairs, "two_prepositionals"))
    assert counts == {0: 50, 1: 100, 2: 50}


def test_nothing_but_the_subject_tells_the_number(pairs):
    telling = {
        "is",
        "are",
        "was",
        "were",
        "has",
        "have",
        "does",
        "do",
        "this",
        "these",
        "those",
        "it",
        "they",
    }
    for pair in pairs:
        if PHENOMENA[pair.phenomenon].is_subject_verb and pair.phenomenon != "quantified":
            assert not telling & set(pair.draft.before.lower().split()), pair.good
    rests = {word for each in lexicon.PERSON_PREDICATES for word in each.rest.split()}
    assert not rests & {"is", "are", "was", "were", "has", "have", "himself", "herself", "themselves"}


def test_distance_counts_the_words_in_between(pairs):
    wanted = {"simple": 0, "coordination": 4, "bare_object_relative": 3, "complement": 0}
    for name, distance in wanted.items():
        assert {pair.draft.distance for pair in select(pairs, name)} == {distance}


class Wishes(Random):
    """Draws that come out as wished: of the options, the one that is most of a wished sentence.

    Where two kinds of sentences are open, `number` chooses.
    """

    def __init__(self, sentence: str, number: int) -> None:
        super().__init__()
        words = re.sub(r"[\[\]|.]", " ", sentence).split()
        self.sentence, self.number = f" {' '.join(words)} ", number

    def fit(self, option: object) -> int:
        if isinstance(option, str):
            return len(option) if option and f" {option} " in self.sentence else 0
        parts = option if isinstance(option, tuple) else vars(option).values()
        return sum(self.fit(part) for part in parts)

    def choice(self, seq):
        return max(seq, key=self.fit)

    def sample(self, population, k, *, counts=None):
        def place(noun):
            found = (self.sentence.find(f" {form} ") for form in (noun.singular, noun.plural))
            return min((where for where in found if where >= 0), default=len(self.sentence))

        return sorted(population, key=place)[:k]

    def random(self):
        return 0.9 * self.number

    def randrange(self, start, stop=None, step=1):
        return self.number


WISHED = {
    "simple": "The poor author [was | were] very tired.",
    "prepositional": "The keys to the door [are | is] of no use.",
    "two_prepositionals": "The key to the doors of the captains [was | were] very old.",
    "subject_relative": "The author that knew the soldiers [seems | seem] to be very happy.",
    "object_relative": "The books that the girl bought [were | was] quite new.",
    "bare_object_relative": "The doctor the boys met [has | have] nothing to say.",
    "inside_relative": "The letters that the servant [has | have] lost came from the city.",
    "complement": "The boys said that the teacher [was | were] still asleep.",
    "coordination": "The soldiers met the captain and [were | was] glad to hear it.",
    "quantified": "Each of the girls [knows | know] the whole story.",
    "reflexive": "The girls hurt [themselves | herself] on the stairs.",
    "reflexive_relative": "The queen that the soldiers feared seated [herself | themselves] by the window.",
    "reflexive_gender": "The king saw [himself | herself] in the glass.",
    "determiner_adjective_noun": "The doctor looked at these little black [boxes | box] for a long time.",
    "determiner": "The judge spoke of [those | that] beautiful horses without a word.",
    "licensor": "[no | some] sailor had ever seen the sea.",
    "licensed": "The good child had [never | ever] told the truth.",
    "case": "The stranger met [them | they] on the road.",
    "participle": "The sailor had never [seen | saw] the ship.",
}


@pytest.mark.parametrize("name", WISHED)
def test_sentences_that_the_grammar_can_say(name):
    found = {
        Pair(name, 0, draft).choice
        for number in (0, 1)
        for draft in PHENOMENA[name].build(Wishes(WISHED[name], number))
    }
    assert WISHED[name] in found


def test_the_largest_number_of_pairs_is_there():
    assert len(generate_pairs(AgreementSettings(num_pairs=1000, seed=9))) == 20_000


def test_pairs_can_be_read_by_people_and_programs(pairs):
    lines = format_pairs(select(pairs, "simple")).splitlines()
    assert len(lines) == 200
    assert lines[0].startswith('{"phenomenon": "simple", "frame": 0, "good": "The ')


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"num_pairs": 100}, "num_pairs is 100: input should be a multiple of 8"),
        ({"num_pairs": 8000}, "num_pairs is 8000: input should be less than or equal to 1000"),
        ({"phenomena": ["reflexiv"]}, "no phenomenon 'reflexiv'; did you mean reflexive?"),
        ({"phenomena": []}, "give at least one phenomenon, and each once"),
        ({"seed": -1}, "seed is -1: input should be greater than or equal to 0"),
    ],
)
def test_wrong_settings_are_told_in_a_line(values, told):
    with pytest.raises(SettingsError) as caught:
        build_settings(AgreementSettings, values=values)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_recipe_is_the_default():
    values, source = RecipeShelf("study").read_values("agreement")
    assert build_settings(AgreementSettings, values=values, source=source) == SETTINGS
