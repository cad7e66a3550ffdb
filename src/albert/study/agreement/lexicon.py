"""The words of our small English: nothing comes in; nouns, verbs and the phrases around them go out.

Ordinary words of novels, so that a model of a few thousand pieces knows them. What is asked for must be one
word in two forms that a vocabulary cuts alike; small vocabularies have `seems` in one piece and `laughs` in
two, which is why there are more verbs of the first kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Noun:
    """A noun that can be counted."""

    singular: str
    plural: str

    def inflect(self, *, is_plural: bool) -> str:
        """Its form of that number."""
        return self.plural if is_plural else self.singular


@dataclass(frozen=True)
class Predicate:
    """A verb in its two forms, and what follows it: the same for one and for many."""

    singular: str
    plural: str
    rest: str


@dataclass(frozen=True)
class Relation:
    """A thing, a preposition, and the things that may stand behind it."""

    head: Noun
    preposition: str
    others: tuple[Noun, ...]


@dataclass(frozen=True)
class StrongVerb:
    """A verb whose participle is not its past tense, and what may follow both."""

    participle: str
    past: str
    rest: str


def _read_noun(word: str) -> Noun:
    singular, _, plural = word.partition("/")
    return Noun(singular, plural or f"{singular}s")


def _read_nouns(words: str) -> tuple[Noun, ...]:
    """`boy` is a regular noun; an irregular one is written `man/men`."""
    return tuple(_read_noun(word) for word in words.split())


def _read_predicates(table: Mapping[str, str]) -> tuple[Predicate, ...]:
    """`{"is/are": "very tired, not at home"}` as two predicates."""
    found = []
    for forms, rests in table.items():
        singular, plural = forms.split("/")
        found += [Predicate(singular, plural, rest.strip()) for rest in rests.split(",")]
    return tuple(found)


PEOPLE = _read_nouns(
    "author doctor captain soldier servant officer lawyer friend stranger neighbour farmer teacher visitor "
    "guest prisoner sailor priest judge clerk merchant painter shepherd student driver king queen prince boy "
    "girl uncle aunt brother sister cousin child/children man/men woman/women lady/ladies "
    "gentleman/gentlemen thief/thieves"
)
# Each beside its counterpart.
COUPLES = tuple(
    zip(
        _read_nouns("boy man/men gentleman/gentlemen king prince brother father uncle son husband"),
        _read_nouns(
            "girl woman/women lady/ladies queen princess/princesses sister mother aunt daughter wife/wives"
        ),
        strict=True,
    )
)
PERSON_ADJECTIVES = ("old", "young", "poor", "tall", "good", "strange")
THINGS = _read_nouns(
    "book letter picture door window house room road tree chair flower boat box/boxes garden tower gate "
    "horse stone table ship bird dog hill paper lamp bridge church/churches shoe"
)
THING_ADJECTIVES = (
    "old", "new", "little", "beautiful", "strange", "white", "large", "little black", "strange old",
)  # fmt: skip
PERSON_PREDICATES = _read_predicates(
    {
        "is/are": "very tired, not at home, ready to go, always late, afraid of the dark",
        "was/were": "very tired, still asleep, glad to hear it, in the garden, too old to work",
        "has/have": "been very ill, gone to the city, nothing to say, no time to lose",
        "does/do": "not know the way, not like the place, not want to stay",
        "seems/seem": "to be very happy, to know everything",
        "looks/look": "very pale, quite young",
        "appears/appear": "to be angry, to understand",
        "comes/come": "from the north, here every day",
        "goes/go": "to bed very early, home every evening",
        "knows/know": "the whole story, nothing about it",
        "wants/want": "to go home, a little money",
        "lives/live": "near the river, in a small house",
        "says/say": "very little, nothing at all",
        "stands/stand": "near the fire, at the window",
        "remains/remain": "very quiet, in the house",
        "makes/make": "a great noise, no mistakes",
        "takes/take": "a walk every morning, no notice of it",
        "laughs/laugh": "at everything",
        "speaks/speak": "very slowly",
        "sleeps/sleep": "in the kitchen",
        "walks/walk": "to the village",
    }
)
THING_PREDICATES = _read_predicates(
    {
        "is/are": "very old, not far away, quite new, of no use",
        "was/were": "very old, quite new, not to be seen, of no use",
        "has/have": "been sold, been there for years, no name",
        "does/do": "not belong to him, not look very old",
        "seems/seem": "to be very old, to be lost",
        "looks/look": "very strange, quite new",
        "comes/come": "from the city, into view",
        "remains/remain": "in the house, unknown to the world",
        "belongs/belong": "to the king",
    }
)
RELATIONS = tuple(
    Relation(_read_noun(head), preposition, _read_nouns(others))
    for head, preposition, others in (
        ("key", "to", "door room house box/boxes gate"),
        ("road", "to", "village town river castle church/churches"),
        ("door", "of", "house room church/churches shop tower"),
        ("window", "of", "house room shop castle"),
        ("house", "near", "river church/churches bridge hill"),
        ("tree", "behind", "house wall church/churches garden"),
        ("chair", "near", "window door table bed"),
        ("flower", "in", "garden field window room"),
        ("boat", "near", "bridge island ship"),
        ("box/boxes", "under", "table bed tree chair"),
        ("picture", "of", "horse ship house castle"),
        ("letter", "about", "house ship horse garden"),
    )
)
NEARNESS = ("near", "behind", "beside")
# In the past tense, which has one form for both numbers: nothing but the noun tells the number.
# None that takes a bare infinitive: `who saw the boys walk` would begin well.
PERSON_VERBS = (
    "met",
    "knew",
    "loved",
    "followed",
    "feared",
    "admired",
    "hated",
    "liked",
    "trusted",
    "visited",
)
THING_VERBS = ("found", "bought", "sold", "lost", "brought", "wanted", "liked", "remembered")
SAYING_VERBS = ("said", "thought", "knew", "believed", "heard")
RELATIVE_PREDICATES = _read_predicates(
    {
        "has/have": "found, bought, lost, brought",
        "was/were": "looking for, carrying, selling",
        "is/are": "going to sell, looking for",
        "does/do": "not want, not like",
        "wants/want": "to sell, to buy",
    }
)
RELATIVE_ENDS = ("came from the city", "cost a great deal of money", "looked very old", "lay on the ground")
SINGULAR_QUANTIFIERS = ("Each", "One")
PLURAL_QUANTIFIERS = ("All", "Both", "Many", "Several")
REFLEXIVE_FRAMES = (
    ("hurt", "on the stairs"), ("found", "alone in the house"), ("asked", "the same question"),
    ("threw", "on the ground"), ("saw", "in the glass"), ("told", "that it was late"),
    ("placed", "near the fire"), ("seated", "by the window"), ("made", "very useful"),
    ("considered", "very fortunate"), ("kept", "out of sight"), ("lost", "in the wood"),
    ("thought", "very clever"), ("blamed", "for everything"),
)  # fmt: skip
DETERMINERS = (("this", "these"), ("that", "those"))
LOOKING_VERBS = ("looked at", "thought of", "spoke of", "pointed to", "asked about")
ENDINGS = ("for a long time", "with great interest", "in the evening", "without a word", "once more")
# What somebody had done.
DEEDS = (
    "seen the sea", "been in the house", "heard the story", "spoken of it", "lived in the castle",
    "asked the question", "read the letter", "crossed the river", "found the place", "told the truth",
)  # fmt: skip
PLACES = ("in the garden", "near the river", "at the door", "on the road", "in the evening")
CASES = (("he", "him"), ("she", "her"), ("they", "them"), ("we", "us"), ("I", "me"))
# Not those whose past tense older novels use as a participle: `had forgot`, `had drank`, `had hid`.
STRONG_VERBS = tuple(
    StrongVerb(*words)
    for words in (
        ("seen", "saw", "the ship"), ("gone", "went", "to the city"), ("taken", "took", "the money"),
        ("given", "gave", "him the letter"), ("written", "wrote", "a long letter"),
        ("spoken", "spoke", "to the king"), ("broken", "broke", "the glass"), ("known", "knew", "the truth"),
        ("fallen", "fell", "into the river"), ("chosen", "chose", "the best room"),
        ("begun", "began", "the work"), ("done", "did", "the work"), ("drawn", "drew", "the curtain"),
        ("grown", "grew", "very old"), ("thrown", "threw", "the stone"),
        ("driven", "drove", "to the village"), ("risen", "rose", "from the chair"),
        ("stolen", "stole", "the money"), ("worn", "wore", "the black coat"),
        ("shaken", "shook", "the tree"), ("eaten", "ate", "the bread"),
    )
)  # fmt: skip
ADVERBS = ("", "never", "often", "once")
