"""Examples of one text or two come in; sequences for classification and regression go out."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from albert.tasks.encoding.sequence import Frame, TaskSequence, check_length, iter_groups
from albert.tasks.examples import Label, TextExample
from albert.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class EncodedText:
    """The sequence of an example, its label, and how many pieces were cut off to make it fit."""

    id: str
    sequence: TaskSequence
    label: Label
    num_cut: int


def iter_encoded_texts(
    examples: Iterable[TextExample], *, tokenizer: Tokenizer, max_length: int
) -> Iterator[EncodedText]:
    """`[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]` of each, of `max_length` pieces at most."""
    check_length(max_length, least=5)
    frame = Frame.of(tokenizer)
    for group in iter_groups(
        examples, count_characters=lambda each: len(each.first) + len(each.second or "")
    ):
        firsts = tokenizer.encode_ids([example.first for example in group])
        seconds = iter(tokenizer.encode_ids([each.second for each in group if each.second is not None]))
        for example, first in zip(group, firsts, strict=True):
            second = None if example.second is None else next(seconds)
            yield _build(example, first, second, frame=frame, max_length=max_length)


def _build(
    example: TextExample, first: list[int], second: list[int] | None, *, frame: Frame, max_length: int
) -> EncodedText:
    if second is None:
        room = max_length - 2
        num_cut = max(0, len(first) - room)
        return EncodedText(example.id, frame.join(frame.share(first[:room])), example.label, num_cut)
    keep_first, keep_second = share_room(len(first), len(second), room=max_length - 3)
    num_cut = len(first) + len(second) - keep_first - keep_second
    sequence = frame.join(frame.share(first[:keep_first]), frame.share(second[:keep_second]))
    return EncodedText(example.id, sequence, example.label, num_cut)


def share_room(num_first: int, num_second: int, *, room: int) -> tuple[int, int]:
    """How many pieces of each text stay when, as published, the longer one loses its last until both fit.

    Of two that are equally long, the second does.
    """
    if num_first + num_second <= room:
        return num_first, num_second
    keep_first = min(num_first, max(room - num_second, (room + 1) // 2))
    return keep_first, room - keep_first
