"""What a lower layer refuses comes in; the same goes out with a cure that can be typed after `quickstart`."""

from collections.abc import Iterator
from contextlib import contextmanager

from albert.errors import AlbertError, FileFormatError, InputError, WriteError

CURES = {
    "use --size ": "use vocab_size=",
    "use a batch_size of at most": "use a pretrain.batch_size of at most",
    "a smaller batch_size or model": "a smaller pretrain.batch_size or pretrain.model",
    "give more time": "give more --minutes",
    "as held_out.data": "as pretrain.held_out.data",
    "use examples.objective=none": "use pretrain.examples.objective=none",
    "use objective=sop": "use pretrain.examples.objective=sop",
    "raise data_share": "raise pretrain.data_share",
    "prepare more text": "give more text",
    "go on with --resume": "start the same command again",
    "the same command with --resume": "the same command",
    ", or add --overwrite": "",
}


@contextmanager
def in_words_of_quickstart() -> Iterator[None]:
    """Tell errors of the block with the options of this command instead of another's."""
    try:
        yield
    except WriteError as error:
        if error.cure is not None:
            error.cure = _translate(error.cure)
        raise
    except AlbertError as error:
        told = _translate(str(error))
        if told == str(error):
            raise
        kind = FileFormatError if isinstance(error, FileFormatError) else InputError
        raise kind(told) from error


def _translate(told: str) -> str:
    for theirs, ours in CURES.items():
        told = told.replace(theirs, ours)
    return told
