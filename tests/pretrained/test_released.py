"""The models that come with the package: found by name, light on the disk, whole in the computing."""

import itertools
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import albert
from albert.errors import InputError
from albert.examples.settings import ExampleSettings
from albert.pretrained.folder import load_model, load_vocabulary, save_model
from albert.pretrained.hub import RELEASED, find_released, resolve_source
from albert.training.settings import PretrainSettings
from tests.conftest import RunAlbert

ROOT = Path(__file__).parents[2]
SENTENCES = ROOT / "tests" / "data" / "sentences" / "en.txt"  # most are of a book that was held out
MAX_BYTES = 6_000_000


@pytest.fixture
def half(tiny_folder: Path, tmp_path: Path) -> Path:
    """The tiny model in half precision."""
    loaded = load_model(tiny_folder)
    save_model(tmp_path / "half", loaded.model, tokenizer=load_vocabulary(tiny_folder), dtype=torch.float16)
    return tmp_path / "half"


@pytest.fixture
def stand_in(half: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A model in the place of the released one, for a user in an empty folder."""
    for name in RELEASED:
        monkeypatch.setitem(RELEASED, name, half)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    return half


@pytest.mark.parametrize("name", ["nano", "albert-nano-en"])
def test_a_released_name_is_a_folder(name: str, stand_in: Path) -> None:
    assert resolve_source(name) == stand_in
    with pytest.raises(InputError, match=f"'{name}' .* no revision 'v2'"):
        resolve_source(name, revision="v2")


def test_what_exists_here_wins(stand_in: Path) -> None:
    Path("nano").mkdir()
    assert resolve_source("nano") == Path("nano")
    assert resolve_source("albert-nano-en") == stand_in


def test_a_package_without_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(RELEASED, "nano", tmp_path / "nowhere")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="'nano' is part of albert-encoder"):
        resolve_source("nano")


def test_a_near_miss_is_told_what_was_meant(stand_in: Path) -> None:
    for name, meant in (("nanno", "nano"), ("albert-nano", "albert-nano-en")):
        with pytest.raises(InputError, match=f"'{name}' is not in the cache .*; did you mean {meant}\\?$"):
            resolve_source(name)  # the hub is never asked in tests


def test_every_command_knows_the_name(stand_in: Path, run_albert: RunAlbert) -> None:
    assert len(albert.load("nano").fill_mask(["the [MASK] was cold"])[0][0]) == 5
    assert run_albert("fill-mask", "--model", "nano", "the [MASK] was cold").code == 0
    assert run_albert("embed", "--model", "albert-nano-en", "the sea", "--out", "vectors.npy").code == 0
    assert run_albert("vocab", "tokenize", "--vocab", "nano", "the sea").code == 0
    assert run_albert("convert", "nano", "copy").code == 0
    Path("a.txt").write_text("the sea was cold . the ship left the town .\n" * 20)
    assert run_albert("corpus", "prepare", "a.txt", "--vocab", "nano", "--out", "corpus").code == 0


def test_half_the_bits_compute_in_full(half: Path, tiny_folder: Path) -> None:
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


def test_training_goes_on_in_full_precision(half: Path) -> None:
    from albert.training.pretrain import build_pretrain_model

    loaded = load_model(half)
    settings = PretrainSettings(
        model=loaded.config, init_from=str(half), examples=ExampleSettings(max_length=32)
    )
    model = build_pretrain_model(settings)
    assert {each.dtype for each in model.parameters()} == {torch.float32}
    ours, theirs = model.state_dict(), loaded.model.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_fine_tuning_writes_full_precision(half: Path, tmp_path: Path) -> None:
    from tests.bench.official_files import write_tasks

    overrides = ["num_steps=2", "batch_size=4", "num_evaluations=1", "has_tensorboard=false"]
    data = write_tasks(tmp_path / "glue")
    result = albert.finetune("sst-2", model=half, data=data, out=tmp_path / "run", overrides=overrides)
    assert result.model_dir is not None
    weights = load_file(result.model_dir / "model.safetensors")
    assert {each.dtype for each in weights.values()} == {torch.float32}


@pytest.mark.slow
def test_a_wheel_brings_the_folder_along(half: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    shutil.copytree(half, tree / "src" / "albert" / "released" / "nano", dirs_exist_ok=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    code = "import setuptools.build_meta as backend; backend.build_wheel('out')"
    subprocess.run([sys.executable, "-c", code], cwd=tree, check=True, capture_output=True)
    (wheel,) = (tree / "out").glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"albert/released/nano/{file.name}" for file in half.iterdir()} <= names


# From here on: the real one.


@pytest.fixture(scope="module")
def nano() -> Path:
    folder = find_released("nano")
    assert folder is not None
    return folder


def test_nano_is_light(nano: Path) -> None:
    assert sum(file.stat().st_size for file in nano.rglob("*") if file.is_file()) <= MAX_BYTES
    assert {each.dtype for each in load_file(nano / "model.safetensors").values()} == {torch.float16}


def test_nano_says_what_it_is(nano: Path) -> None:
    card = (nano / "README.md").read_text(encoding="utf-8")
    assert card.startswith("---\n")
    for words in ("license: apache-2.0", "language: en", "OpenStax", "CC BY 4.0", "## Limits"):
        assert words in card, words


@torch.inference_mode()
def test_nano_knows_more_than_how_frequent_words_are(nano: Path) -> None:
    from sentencepiece import SentencePieceProcessor

    from albert.model.tokens import Tokens

    model, tokenizer = load_model(nano).model, load_vocabulary(nano)
    pieces = SentencePieceProcessor(model_file=str(nano / "spiece.model"))
    lines = [line for line in SENTENCES.read_text(encoding="utf-8").splitlines() if len(line) > 60]
    losses, unigrams = [], []
    for ids in tokenizer.encode_ids(lines):
        ids, places = [tokenizer.cls_id, *ids[:100], tokenizer.sep_id], torch.arange(4, len(ids[:100]), 9)
        targets = torch.tensor(ids)[places]
        masked = torch.tensor(ids).index_fill(0, places, tokenizer.mask_id)
        last = model(Tokens.from_lists([masked.tolist()], [[0] * len(ids)], device=torch.device("cpu")))
        logits = model.compute_mlm_logits(last.last_TD[places])
        losses += torch.nn.functional.cross_entropy(logits, targets, reduction="none").tolist()
        unigrams += [-pieces.get_score(number) for number in targets.tolist()]
    assert len(losses) > 100
    assert sum(losses) / len(losses) < sum(unigrams) / len(unigrams) - 1.5


def test_nano_tells_what_came_first(nano: Path) -> None:
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    pairs = [pair for pair in itertools.pairwise(lines) if all(len(text) > 30 for text in pair)]
    answers = albert.load(nano).sentence_order([*pairs, *((second, first) for first, second in pairs)])
    gains = [
        right.in_order - wrong.in_order
        for right, wrong in zip(answers[: len(pairs)], answers[len(pairs) :], strict=True)
    ]
    assert len(gains) > 20
    assert sum(gains) / len(gains) > 0.05  # sentences from anywhere: of passages it tells far more (its card)


def test_nano_answers_as_transformers_does(nano: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(nano)
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(nano, dtype=torch.float32).eval()
    text = "She opened the door and [MASK] into the room."
    encoded = tokenizer(text, return_tensors="pt")
    with torch.inference_mode():
        logits = theirs(**encoded).logits[0, encoded["input_ids"][0] == tokenizer.mask_token_id][0]
    ours = albert.load(nano).fill_mask([text])[0][0]
    assert [each.id for each in ours] == logits.topk(5).indices.tolist()
