"""Cures of lower layers are told with the options that `albert quickstart` has."""

import errno
from pathlib import Path

import pytest

import albert
from albert.app.quickstart.wording import CURES, in_words_of_quickstart
from albert.errors import AlbertError, FileFormatError, InputError, WriteError
from albert.training.run_folder import STEPS_ARE_SAVED

SOURCES = [path for path in Path(albert.__file__).parent.rglob("*.py") if path.name != "wording.py"]


def tell(error: AlbertError) -> AlbertError:
    with pytest.raises(AlbertError) as caught, in_words_of_quickstart():
        raise error
    return caught.value


@pytest.mark.parametrize("kind", [InputError, FileFormatError])
def test_a_cure_is_translated_and_the_kind_of_the_error_stays(kind):
    found = tell(kind("8,000 pieces are too few; use --size 9120 or more"))
    assert type(found) is kind
    assert str(found) == "8,000 pieces are too few; use vocab_size=9120 or more"


def test_a_full_disk_is_told_with_the_command_that_goes_on():
    found = tell(WriteError(errno.ENOSPC, "No space left on device", "run", cure=STEPS_ARE_SAVED))
    assert isinstance(found, WriteError)
    assert str(found).endswith("; all steps are saved: mend that and start the same command again")


def test_what_needs_no_translation_is_the_same_error():
    error = InputError("nothing of that kind")
    assert tell(error) is error


@pytest.mark.parametrize("theirs", CURES)
def test_each_cure_that_is_translated_is_told_somewhere(theirs):
    """Words that nobody says any more would leave their successors untranslated."""
    words = theirs.strip(" ,")
    told = "\n".join(
        " ".join(path.read_text(encoding="utf-8").replace('"\n', "").split()) for path in SOURCES
    )
    assert words in told.replace(' f"', " ").replace(' "', " ")
