from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert.data.cleaning import (
    clean_bytes,
    drop_license,
    drop_page_lines,
    find_running_heads,
    looks_binary,
)


def clean(data):
    counts = Counter()
    return clean_bytes(data, counts), dict(counts)


@pytest.mark.parametrize(
    ("data", "text", "counts"),
    [
        (b"\xef\xbb\xbfone\r\ntwo\rthree\n", "one\ntwo\nthree\n", {"byte_order_marks": 1}),
        (b"a\x00bc\x1b\td\n", "abc\td\n", {"control_characters": 2}),
        (b"two\x0bwords\x0con two pages\n", "two\nwords\non two pages\n", {}),
        (b"the end\n\x0cNext page\n", "the end\nNext page\n", {"control_characters": 1}),
        ("a\u0080b\u00adc".encode(), "abc", {"control_characters": 1, "soft_hyphens": 1}),
        ("a\u200bb\u2060c".encode(), "abc", {"invisible_characters": 2}),
        ("a\u0085b\u2028c".encode(), "a\nb\nc", {}),
        (b"caf\xe9 and \xff\xfe", "caf\ufffd and \ufffd\ufffd", {"broken_characters": 3}),
        ("a \ufffd of its own".encode(), "a \ufffd of its own", {}),
        ("می\u200cخواهم £5 “so”".encode(), "می\u200cخواهم £5 “so”", {}),
        (b"x " + b"A" * 201 + b" y", "x  y", {"long_tokens": 1}),
        (b"x " + b"A" * 200 + b" y", "x " + "A" * 200 + " y", {}),
        (b"", "", {}),
    ],
)  # fmt: skip
def test_unwanted_characters_are_removed_and_counted(data, text, counts):
    assert clean(data) == (text, counts)


@given(
    st.text(
        alphabet=st.characters(min_codepoint=32, exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Co"]),
        max_size=80,
    )
)
def test_clean_text_is_not_changed(text):
    assert clean(text.encode()) == (text, {})


def test_page_numbers_are_dropped_and_numbers_in_text_are_kept():
    counts = Counter()
    text = "In\n12\nthe year 1815\n- 13 -\n[14]\nPage 15\n  16  \n1815 was cold\n12345\n3.\n"
    assert drop_page_lines(text, counts) == "In\nthe year 1815\n1815 was cold\n12345\n3.\n"
    assert counts == {"page_numbers": 5}


def test_running_heads_are_found_and_dropped_with_any_page_number():
    pages = [
        f"{n} THE OLD HOUSE\nSome text that differs, {n} times.\n'Yes, sir.'\nand more\n" for n in range(40)
    ]
    sample = "".join(pages)
    heads = find_running_heads(sample)
    assert heads == ("# THE OLD HOUSE",)
    counts = Counter()
    kept = drop_page_lines(sample, counts, heads=heads)
    assert counts == {"running_heads": 40}
    assert "OLD HOUSE" not in kept
    assert kept.count("'Yes, sir.'") == 40


def test_chapter_headings_are_not_running_heads():
    chapters = (f"CHAPTER {n}\n" + "A line of a chapter, unlike any other line.\n" * 200 for n in range(30))
    assert find_running_heads("".join(chapters)) == ()


@pytest.mark.parametrize(
    ("head", "is_binary"),
    [
        (b"text", False),
        (b"PNG\x00\x01", True),
        (bytes(range(128, 256)) * 4, True),
        ("naïve".encode("latin-1"), False),
    ],
)  # fmt: skip
def test_binary_files_are_recognized(head, is_binary):
    assert looks_binary(head) is is_binary


def book(number: int) -> str:
    return (
        f"*** START OF THE PROJECT GUTENBERG EBOOK {number} ***\nThe text of book {number}.\n"
        f"*** END OF THE PROJECT GUTENBERG EBOOK {number} ***\nlegal words {number}\n"
    )


def test_licenses_before_between_and_behind_books_are_dropped():
    counts: Counter[str] = Counter()
    text = "preface by others\n" + "".join(map(book, range(5)))
    kept, is_license = drop_license(text, counts)
    assert kept == "".join(f"The text of book {number}.\n" for number in range(5))
    assert is_license
    assert counts["licence_characters"] == len(text) - len(kept)
    assert drop_license("No license here.\n", Counter()) == ("No license here.\n", False)
    # Later parts of a long file: inside the license, inside a book, and at the end of a book.
    later, _ = drop_license("more legal words\n" + book(7), counts, is_license=True)
    assert later == "The text of book 7.\n"
    unmarked, _ = drop_license("A second part.\n" + book(8), counts, is_license=False)
    assert unmarked == "A second part.\nThe text of book 8.\n"
    end = "*** END OF THE PROJECT GUTENBERG EBOOK 9 ***\nlegal words\n"
    assert drop_license(end, counts, is_license=False) == ("", True)
