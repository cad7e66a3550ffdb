"""The models of the package: found by name, saved in half precision, computed in full precision."""

import itertools
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from sentencepiece import SentencePieceProcessor

import albert
from albert.errors import InputError
from albert.model.tokens import Tokens
from albert.pretrained.folder import load_model, load_vocabulary, save_model
from albert.pretrained.hub import RELEASED, find_released, resolve_source
from tests.bench.official_files import write_tasks
from tests.conftest import RunAlbert, rejects

ROOT = Path(__file__).parents[2]
SENTENCES = ROOT / "tests" / "data" / "sentences" / "en.txt"  # most are of a book that was held out


@pytest.fixture
def half(tiny_folder: Path, tmp_path: Path) -> Path:
    """The tiny model in half precision."""
    loaded = load_model(tiny_folder)
    save_model(tmp_path / "half", loaded.model, tokenizer=load_vocabulary(tiny_folder), dtype=torch.float16)
    return tmp_path / "half"


@pytest.fixture
def stand_in(half: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A small model in place of the released ones, and an empty current directory."""
    for name in RELEASED:
        monkeypatch.setitem(RELEASED, name, half)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    return half


def test_a_released_name_is_a_folder_unless_a_local_one_has_the_name(stand_in: Path) -> None:
    for name in ("nano", "albert-nano-en"):
        assert resolve_source(name) == stand_in
        with rejects(InputError, f"'{name}'", "'v2'"):
            resolve_source(name, revision="v2")
    Path("nano").mkdir()
    assert resolve_source("nano") == Path("nano")
    assert resolve_source("albert-nano-en") == stand_in


def test_every_command_accepts_the_name(stand_in: Path, run_albert: RunAlbert) -> None:
    assert len(albert.load("nano").fill_mask(["the [MASK] was cold"])[0][0]) == 5
    assert run_albert("fill-mask", "--model", "nano", "the [MASK] was cold").code == 0
    assert run_albert("embed", "--model", "albert-nano-en", "the sea", "--out", "vectors.npy").code == 0
    assert run_albert("vocab", "tokenize", "--vocab", "nano", "the sea").code == 0
    assert run_albert("convert", "nano", "copy").code == 0
    Path("a.txt").write_text("the sea was cold . the ship left the town .\n" * 20)
    assert run_albert("corpus", "prepare", "a.txt", "--vocab", "nano", "--out", "corpus").code == 0


def test_half_precision_weights_are_computed_in_full_precision(half: Path, tiny_folder: Path) -> None:
    assert {each.dtype for each in load_file(half / "model.safetensors").values()} == {torch.float16}
    assert {each.dtype for each in load_model(half).model.state_dict().values()} == {torch.float32}
    texts = ["the ship [MASK] the town", "a cold [MASK]"]
    for light, full in zip(
        *(albert.load(folder).fill_mask(texts, top=20) for folder in (half, tiny_folder)), strict=True
    ):
        by_id = [{each.id: each.probability for each in answer[0]} for answer in (light, full)]
        assert all(by_id[0][number] == pytest.approx(by_id[1][number], abs=1e-2) for number in by_id[1])
    vectors = [albert.load(folder).embed(["the sea was cold"]) for folder in (half, tiny_folder)]
    assert 0 < abs(vectors[0] - vectors[1]).max() < 1e-2


def test_fine_tuning_writes_full_precision(half: Path, tmp_path: Path) -> None:

    overrides = ["num_steps=2", "batch_size=4", "num_evaluations=1", "has_tensorboard=false"]
    data = write_tasks(tmp_path / "glue")
    result = albert.finetune("sst-2", model=half, data=data, out=tmp_path / "run", overrides=overrides)
    assert result.model_dir is not None
    weights = load_file(result.model_dir / "model.safetensors")
    assert {each.dtype for each in weights.values()} == {torch.float32}


@pytest.fixture(scope="module")
def nano() -> Path:
    folder = find_released("nano")
    assert folder is not None
    return folder


def test_nano_is_in_half_precision(nano: Path) -> None:
    assert {each.dtype for each in load_file(nano / "model.safetensors").values()} == {torch.float16}


@torch.inference_mode()
def test_nano_is_better_than_the_unigram_baseline(nano: Path) -> None:
    model, tokenizer = load_model(nano).model, load_vocabulary(nano)
    processor = SentencePieceProcessor(model_file=str(nano / "spiece.model"))
    lines = [line for line in SENTENCES.read_text(encoding="utf-8").splitlines() if len(line) > 60]
    losses, unigrams = [], []
    for line in tokenizer.encode_ids(lines):
        ids = torch.tensor([tokenizer.cls_id, *line[:100], tokenizer.sep_id])
        indices = torch.arange(4, len(line[:100]), 9)
        masked = ids.index_fill(0, indices, tokenizer.mask_id)
        last = model(
            Tokens.from_lists([masked.tolist()], [[0] * len(ids)], device=torch.device("cpu"))
        ).last_TD
        logits = model.mlm_logits(last[indices])
        losses += torch.nn.functional.cross_entropy(logits, ids[indices], reduction="none").tolist()
        unigrams += [-processor.get_score(number) for number in ids[indices].tolist()]
    assert len(losses) > 100
    assert sum(losses) / len(losses) < sum(unigrams) / len(unigrams) - 1.5


def test_nano_predicts_sentence_order(nano: Path) -> None:
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    pairs = [pair for pair in itertools.pairwise(lines) if all(len(text) > 30 for text in pair)]
    answers = albert.load(nano).sentence_order([*pairs, *((second, first) for first, second in pairs)])
    in_order = [answer.in_order for answer in answers]
    assert len(pairs) > 20
    # These are single sentences; on longer passages the difference is much larger (see its card).
    assert sum(in_order[: len(pairs)]) - sum(in_order[len(pairs) :]) > 0.05 * len(pairs)


def test_nano_predicts_what_transformers_predicts(nano: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(nano)
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(nano, dtype=torch.float32).eval()
    text = "She opened the door and [MASK] into the room."
    encoded = tokenizer(text, return_tensors="pt")
    with torch.inference_mode():
        logits = theirs(**encoded).logits[0, encoded["input_ids"][0] == tokenizer.mask_token_id][0]
    ours = albert.load(nano).fill_mask([text])[0][0]
    assert [each.id for each in ours] == logits.topk(5).indices.tolist()
