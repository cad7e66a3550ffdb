"""An answer's characters in a context come in, the range of pieces that stand for them goes out."""

from array import array
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from albert.tasks.encoding.sequence import Frame
from albert.tasks.examples import Answer
from albert.text.encoding import Encoding


@dataclass(frozen=True, slots=True)
class ContextPieces:
    """The pieces of a context, and the characters `[starts[i], ends[i])` of the raw text for piece i.

    An `Encoding` in a sixth of the memory: of a large data set, every context stays.
    """

    ids: tuple[int, ...]
    starts: "array[int]"
    ends: "array[int]"

    @staticmethod
    def of(encoding: Encoding, *, frame: Frame) -> "ContextPieces":
        """The same pieces."""
        starts, ends = (array("i", (span[side] for span in encoding.spans)) for side in (0, 1))
        return ContextPieces(frame.share(encoding.ids), starts, ends)


@dataclass(frozen=True, slots=True)
class Placement:
    """The pieces `first` to `last` of a context.

    An answer that begins or ends inside a piece takes the whole piece; white space at its ends, for which no
    piece stands, is lost.
    """

    first: int
    last: int


def place_answer(answer: Answer, context: ContextPieces) -> Placement | None:
    """The pieces of the characters from the answer's start on; None where no piece stands for any of them."""
    start, end = answer.start, answer.start + len(answer.text)
    first = bisect_right(context.ends, start)  # the first piece that ends behind the start
    last = bisect_left(context.starts, end) - 1  # the last that starts before the end
    while last >= first and context.starts[last] == context.ends[last]:  # a lone border of a word
        last -= 1
    return Placement(first, last) if first <= last else None
