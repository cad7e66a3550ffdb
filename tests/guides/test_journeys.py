"""The runner of the guides: what it takes for a block, what it changes, and what it does not let pass."""

from pathlib import Path

import pytest

from tests.guides.journeys import Block, read_blocks, run_block
from tests.guides.typed_commands import check_typed, iter_typed


def write_guide(folder: Path, *lines: str) -> Path:
    path = folder / "guide.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_blocks_come_in_order_with_their_language_and_their_line(tmp_path):
    guide = write_guide(tmp_path, "# A", "```sh", "one", "two", "```", "words", "```text", "shown", "```")
    blocks = read_blocks(guide)
    assert [(block.line, block.language, block.text) for block in blocks] == [
        (2, "sh", "one\ntwo\n"),
        (7, "text", "shown\n"),
    ]
    assert [block.is_run for block in blocks] == [True, False]


def test_a_comment_changes_the_block_behind_it_and_no_other(tmp_path):
    guide = write_guide(
        tmp_path, "<!-- test: 1h → 1m -->", "```sh", "wait 1h", "```", "```sh", "wait 1h", "```"
    )
    assert [block.text for block in read_blocks(guide)] == ["wait 1m\n", "wait 1h\n"]
    assert [block.text for block in read_blocks(guide, is_changed=False)] == ["wait 1h\n", "wait 1h\n"]


def test_a_block_is_left_out_for_a_reason(tmp_path):
    guide = write_guide(tmp_path, "<!-- test: skip: needs two machines -->", "```sh", "false", "```")
    (block,) = read_blocks(guide)
    assert block.skip_reason == "needs two machines"
    assert not block.is_run


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["<!-- test: 2h → 1m -->", "```sh", "wait 1h", "```"], "'2h' does not stand there"),
        (["<!-- test: faster -->", "```sh", "wait 1h", "```"], "'faster' is neither"),
        (["<!-- test: 1h → 1m -->", "words", "```sh", "wait 1h", "```"], "stands before its block"),
        (["```sh", "wait 1h"], "has no end"),
    ],
)
def test_a_comment_that_does_nothing_is_a_mistake(tmp_path, lines, message):
    with pytest.raises(AssertionError, match=message):
        read_blocks(write_guide(tmp_path, *lines))


@pytest.mark.parametrize(
    ("language", "text"), [("sh", "echo said; false; echo more\n"), ("python", "print('said'); 1 / 0")]
)
def test_a_block_that_fails_is_shown_with_what_it_said(tmp_path, language, text):
    with pytest.raises(AssertionError) as caught:
        run_block(Block("a-guide", 12, language, text), tmp_path)
    shown = str(caught.value)
    assert "a-guide, line 12: exit code 1" in shown
    assert text.strip() in shown
    assert "\nsaid\n" in shown
    assert "\nmore\n" not in shown


def test_a_block_finds_albert_and_works_in_its_folder(tmp_path):
    assert "albert 0." in run_block(
        Block("a-guide", 1, "sh", "albert --version > version.txt; cat version.txt"), tmp_path
    )
    assert (tmp_path / "version.txt").exists()


def test_commands_are_found_wherever_a_shell_runs_them():
    text = (
        "cat > file.txt <<'END'\nalbert is a name\nEND\n"
        "echo a | albert embed --model nano -   # albert what\n"
        "OMP_NUM_THREADS=1 torchrun --nproc-per-node 2 \\\n"
        "    -m albert pretrain nano --data corpus --out run\n"
        "cd there && albert doctor run > 'my file' 2>&1\n"
    )
    assert list(iter_typed(text)) == [
        ["embed", "--model", "nano", "-"],
        ["pretrain", "nano", "--data", "corpus", "--out", "run"],
        ["doctor", "run"],
    ]


@pytest.mark.parametrize(
    "line", ["albert embad --model nano a", "albert embed --modle nano a", "albert embed a", "albert corpus"]
)
def test_a_command_that_does_not_parse_is_refused(line):
    (words,) = iter_typed(line)
    with pytest.raises(Exception, match="such command|such option|Missing parameter|is missing"):
        check_typed(words)
