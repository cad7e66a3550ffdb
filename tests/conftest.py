"""Shared by all tests: a small model folder, commands run in this process, and a check of errors."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from albert.cli.main import _run

VOCABULARY = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the a an ship dog man woman child house river road sea hill town day "
    "night is was has had went came saw left found big small old new cold warm to from in on by with and "
    "or not he she it they we . , ? ! ##s ##ed ##ing ##er one two three"
)
WORDS = VOCABULARY.split()


def pytest_configure() -> None:
    # Read when huggingface_hub and torch are imported: no requests to the hub, and two threads.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    # Background processes of a shell ignore SIGINT, and so do their children; tests send it to commands.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def threads(request) -> Iterator[None]:
    """One thread for the tiny model; two are slower on a busy machine."""
    if "tiny_folder" not in request.fixturenames:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass(frozen=True)
class Outcome:
    """The exit code of a command and what it printed."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one error line of a user's mistake; there is no other output."""
        assert self.code == 2, self
        assert self.out == "", self
        assert self.err.startswith("error: "), self
        assert self.err.count("\n") == 1, self
        assert self.err.endswith("\n"), self
        return self.err.removeprefix("error: ").rstrip("\n")


RunAlbert = Callable[..., Outcome]


@pytest.fixture
def run_albert(capsys) -> Iterator[RunAlbert]:
    """`albert WORD…` in this process."""

    def run(*words: object) -> Outcome:
        capsys.readouterr()
        code = _run([str(word) for word in words])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    # Ray leaves a SIGTERM handler in the process.
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield run
    signal.signal(signal.SIGTERM, before)


@contextmanager
def rejects(error: type[Exception], *values: object) -> Iterator[None]:
    """Check that the block raises this error, with one line that contains these values."""
    with pytest.raises(error) as caught:
        yield
    message = str(caught.value)
    assert "\n" not in message
    assert not [value for value in values if str(value) not in message], message


def read_tree(folder: Path) -> dict[str, bytes | None]:
    """Every path below a folder, hidden ones included, with the content of files."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def write_vocabulary(path: Path, words: list[str]) -> Path:
    path.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder: three shared layers, random weights, MLM and SOP heads, a WordPiece vocabulary.

    Shared by all tests; a test that changes it uses `tiny_copy`.
    """
    from albert.model.albert_model import build_model
    from albert.model.config import ModelConfig
    from albert.pretrained.folder import save_model
    from albert.text.folder import load_tokenizer

    folder = tmp_path_factory.mktemp("tiny")
    vocabulary = write_vocabulary(folder / "vocab.txt", WORDS)
    config = ModelConfig(
        vocab_size=len(WORDS),
        embedding_size=16,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=40,
        initializer_range=0.3,  # predictions differ clearly
    )
    model = build_model(config, heads={"mlm": None, "sop": None}, seed=7)
    save_model(folder / "tiny", model, tokenizer=load_tokenizer(vocabulary))
    return folder / "tiny"


@pytest.fixture
def tiny_copy(tiny_folder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny folder that a test may change."""
    shutil.copytree(tiny_folder, tmp_path / "model")
    return tmp_path / "model"
