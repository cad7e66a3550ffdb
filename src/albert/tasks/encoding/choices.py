"""Questions with options on passages come in; one sequence for each option goes out."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from albert.tasks.encoding.sequence import Frame, TaskSequence, check_length, iter_groups
from albert.tasks.examples import RACE_LEVELS, ChoiceExample
from albert.text.tokenizer import Tokenizer

MAX_QUESTION_AND_OPTION = 128
_BLANK = re.compile("_+")
_FREE_BLANK = re.compile(r"(?<!\w)_+|(?<!_)_+(?!\w)")


@dataclass(frozen=True, slots=True)
class EncodedChoice:
    """A passage in pieces, and those of the question with each option; the sequences are made when asked for.

    The passage, which questions on it share, is whole here and cut to what each option leaves of `room`.
    `num_lost` pieces of questions and options did not fit.
    """

    id: str
    passage: tuple[int, ...]
    endings: tuple[tuple[int, ...], ...]
    frame: Frame
    room: int
    label: int | None
    level: str
    num_lost: int

    @property
    def sequences(self) -> tuple[TaskSequence, ...]:
        """`[CLS] passage [SEP] question + option [SEP]` for each option."""
        return tuple(
            self.frame.join(self.passage[: self.room - len(ending)], ending) for ending in self.endings
        )

    @property
    def num_cut(self) -> int:
        """How many pieces are lost: of questions and options, and of the passage with its longest option."""
        longest = max(len(ending) for ending in self.endings)
        return self.num_lost + max(0, len(self.passage) + longest - self.room)


def iter_encoded_choices(
    examples: Iterable[ChoiceExample],
    *,
    tokenizer: Tokenizer,
    max_length: int,
    max_ending: int = MAX_QUESTION_AND_OPTION,
) -> Iterator[EncodedChoice]:
    """Each question with its options; question and option keep their last pieces, the passage its first."""
    check_length(max_length, least=max_ending + 4, hint=", or max_ending shorter")
    frame = Frame.of(tokenizer)
    for group in iter_groups(examples, count_characters=lambda each: len(each.passage)):
        texts = list(dict.fromkeys(example.passage for example in group))
        passages = dict(zip(texts, map(frame.share, tokenizer.encode_ids(texts)), strict=True))
        filled = [
            fill_blank(example.question, option, is_race=example.level in RACE_LEVELS)
            for example in group
            for option in example.options
        ]
        endings = iter(tokenizer.encode_ids(filled))
        for example in group:
            whole = [next(endings) for _ in example.options]
            yield EncodedChoice(
                id=example.id,
                passage=passages[example.passage],
                endings=tuple(frame.share(ending[-max_ending:]) for ending in whole),
                frame=frame,
                room=max_length - 3,
                label=example.label,
                level=example.level,
                num_lost=sum(max(0, len(ending) - max_ending) for ending in whole),
            )


def fill_blank(question: str, option: str, *, is_race: bool = False) -> str:
    """The option in the place of each blank (`_`), or behind a question that has none.

    Within a word (`my_var`) it is no blank, except in RACE: some of its questions lack the white space.
    """
    filled, num_blanks = (_BLANK if is_race else _FREE_BLANK).subn(lambda match: option, question)
    return filled if num_blanks else f"{question} {option}"
