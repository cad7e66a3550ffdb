"""The texts of albert-mini-en: synsets become sentences, and packages are checked."""

import argparse

import pytest

from albert.errors import InputError
from albert.progress import NullReporter
from release.mini.data import SPEECHES, iter_synsets, run
from tests.conftest import rejects

LINES = """  1 This software and database is being provided to you
00075174 29 v 03 exhaust 0 wash_up 1 beat 0 001 @ 00074774 v 0000 | wear out; "the work exhausts me"; "hi"
00004475 00 a 01 galore(ip) 0 000 | in great numbers
"""


def test_a_synset_is_its_words_its_gloss_and_its_examples():
    assert list(iter_synsets(LINES)) == [
        "exhaust, wash up, beat: wear out.\nThe work exhausts me.",
        "galore: in great numbers.",
    ]


@pytest.mark.parametrize("content", [None, b"another version"])
def test_a_package_must_be_the_one_of_the_release(shelf, tmp_path, content):
    if content is not None:
        (tmp_path / SPEECHES.file).write_bytes(content)
    args = argparse.Namespace(
        data=shelf, packages=tmp_path, teacher=tmp_path, out=tmp_path / "out", workers=1
    )
    with rejects(InputError, SPEECHES.file, SPEECHES.name):
        run(args, NullReporter())
