"""Minimal pairs: pseudo-log-likelihoods against hand-computed values, BLiMP's files, and the whole study."""

import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from albert.errors import FileFormatError, InputError
from albert.model.albert_model import AlbertModel, build_model
from albert.model.config import ModelConfig
from albert.pretrained.folder import save_model
from albert.progress import NullReporter
from albert.report.content import Page
from albert.study import agreement
from albert.study.agreement import AgreementSettings, read_pairs, score_pairs, score_sentences
from albert.text.folder import load_tokenizer
from albert.text.tokenizer import Tokenizer
from tests.conftest import write_vocabulary

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROW = {"field": "syntax/semantics", "linguistics_term": "binding", "UID": "one", "pairID": "0"}


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """The words of the sample are one token each; `walked` is two."""
    texts = [text for pair in read_pairs() for text in (pair.sentence_good, pair.sentence_bad)]
    words = {word for text in texts for word in text.lower().rstrip(".").split()}
    path = tmp_path_factory.mktemp("words") / "vocab.txt"
    return load_tokenizer(write_vocabulary(path, [*SPECIAL, ".", "walk", "##ed", *sorted(words)]))


def build_tiny(tokenizer: Tokenizer, *, seed: int = 3, heads: tuple[str, ...] = ("mlm",)) -> AlbertModel:
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size, embedding_size=16, hidden_size=16, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=32, max_position_embeddings=32, initializer_range=0.3,
    )  # fmt: skip
    return build_model(config, heads=dict.fromkeys(heads), seed=seed).eval()


@pytest.fixture
def make_folder(tokenizer, tmp_path):
    def make(name: str, **options: Any) -> str:
        save_model(tmp_path / name, build_tiny(tokenizer, **options), tokenizer=tokenizer)
        return str(tmp_path / name)

    return make


def write_pairs(path: Path, *pairs: tuple[str, str], **changes: Any) -> Path:
    rows = [{"sentence_good": good, "sentence_bad": bad, **ROW, **changes} for good, bad in pairs]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def run(out: Path, *models: str, data: str | None = None, num_pairs: int = 2) -> Page:
    settings = AgreementSettings(num_pairs=num_pairs)
    return agreement.run_agreement(settings, models=models, out=out, reporter=NullReporter(), data=data)


@pytest.mark.parametrize("depth", [None, 1])
def test_each_token_is_masked_with_the_later_tokens_of_its_word(tokenizer, depth):
    """The same by hand: one padded sequence at a time, all logits, log-softmax."""
    model = build_tiny(tokenizer)
    text = "The boys walked."
    the, boys, walk, ed, stop = ids = tokenizer.encode(text).ids
    mask = tokenizer.mask_id
    masked = [
        [mask, boys, walk, ed, stop], [the, mask, walk, ed, stop], [the, boys, mask, mask, stop],
        [the, boys, walk, mask, stop], [the, boys, walk, ed, mask],
    ]  # fmt: skip
    expected = 0.0
    for position, tokens in enumerate(masked):
        framed = agreement.Tokens.from_lists([[tokenizer.cls_id, *tokens, tokenizer.sep_id]])
        logits_MV = model.mlm_logits(model(framed, depth=depth).last_TD[[position + 1]])
        expected += torch.log_softmax(logits_MV, 1)[0, ids[position]].item()
    [score] = score_sentences(model, tokenizer, [text], depth=depth)
    assert score == pytest.approx(expected, abs=1e-4)


def test_batches_and_chunks_do_not_change_margins_and_unknown_words_are_skipped(tokenizer, monkeypatch):
    model, pairs = build_tiny(tokenizer), read_pairs(settings=AgreementSettings(num_pairs=2))
    pairs[1] = agreement.MinimalPair("The unheard was.", "The unheard were.", "a", "b", "c")
    whole = score_pairs(model, tokenizer, pairs)
    assert [margin is None for margin in whole] == [index == 1 for index in range(len(pairs))]
    monkeypatch.setattr(agreement, "MAX_BATCH_TOKENS", 50)
    monkeypatch.setattr(agreement, "_CHUNK_PAIRS", 7)
    counts: list[int] = []
    parts = score_pairs(model, tokenizer, pairs, show=counts.append)
    assert counts[-1] == len(pairs)
    assert [m for m in parts if m is not None] == pytest.approx([m for m in whole if m is not None], abs=1e-4)
    with pytest.raises(InputError, match="1 pairs"):
        score_pairs(model, tokenizer, [pairs[1]])


def test_the_built_in_sample_is_balanced_and_has_several_phenomena():
    pairs = read_pairs()
    assert len({(pair.sentence_good, pair.sentence_bad) for pair in pairs}) == len(pairs) == 304
    assert {pair.linguistics_term for pair in pairs} == {
        "anaphor_agreement", "determiner_noun_agreement", "irregular_forms", "npi_licensing", "pronoun_case",
        "subject_verb_agreement",
    }  # fmt: skip
    by_word: dict[str, int] = {}
    for pair in pairs:
        good, bad = (set(text.rstrip(".").split()) for text in (pair.sentence_good, pair.sentence_bad))
        [right], [wrong] = good - bad, bad - good
        by_word[right] = by_word.get(right, 0) + 1
        by_word[wrong] = by_word.get(wrong, 0) - 1
    assert set(by_word.values()) == {0}, "each form is correct as often as it is incorrect"


def test_a_folder_a_file_and_archives_give_the_same_pairs(tmp_path):
    folder = tmp_path / "blimp"
    write_pairs(folder / "data" / "b.jsonl", ("B.", "b."), ("C.", "c."), UID="two")
    one = write_pairs(folder / "data" / "a.jsonl", ("A.", "a."))
    (folder / "README.md").write_text("no pairs")
    with tarfile.open(tmp_path / "blimp.tar.xz", "w:xz") as tar:
        tar.add(folder, "blimp")
    with zipfile.ZipFile(tmp_path / "blimp.zip", "w") as zipped:
        for path in folder.rglob("*.jsonl"):
            zipped.write(path)
    found = [read_pairs(str(path)) for path in (folder, tmp_path / "blimp.tar.xz", tmp_path / "blimp.zip")]
    assert found[0] == found[1] == found[2]
    assert [pair.sentence_good for pair in found[0]] == ["A.", "B.", "C."]
    assert found[0][0].field == "syntax_semantics"
    assert read_pairs(str(one)) == found[0][:1]


def test_a_limit_draws_from_each_paradigm_by_seed(tmp_path):
    for uid in ("one", "two"):
        write_pairs(tmp_path / f"{uid}.jsonl", *((f"{uid} {n}.", "x") for n in range(50)), UID=uid)

    def draw(**settings: Any) -> list[str]:
        return [p.sentence_good for p in read_pairs(str(tmp_path), AgreementSettings(**settings))]

    assert len(draw(num_pairs=None)) == 100
    assert [text.split()[0] for text in draw(num_pairs=10)] == ["one"] * 10 + ["two"] * 10
    assert draw(num_pairs=10) == draw(num_pairs=10) != draw(num_pairs=10, seed=1)
    with pytest.raises(InputError, match="bindin.*binding"):
        draw(phenomena=("bindin",))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"sentence_good": "A.", "sentence_bad": "a."}\n', "line 1.*field"),
        ('{"sentence_good": "A."\n', "line 1"),
        ("\n", "pairs"),
    ],
)
def test_what_is_not_blimp_is_rejected_in_one_line(tmp_path, content, told):
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(FileFormatError, match=told):
        read_pairs(str(tmp_path))
    with pytest.raises(FileFormatError, match="absent"):
        read_pairs(str(tmp_path / "absent"))


def test_the_report_has_each_model_by_phenomenon_field_and_paradigm(make_folder, tmp_path):
    out = tmp_path / "out"
    page = run(out, make_folder("a"), make_folder("b", seed=5))
    tables = {table.name: table for table in page.tables}
    assert set(tables) == {"agreement", "fields", "paradigms", "comparison", "worst-1", "worst-2"}
    assert [column.name for column in tables["agreement"].columns] == ["phenomenon", "pairs", "a", "b"]
    assert [row[0].text for row in tables["fields"].rows] == ["morphology", "semantics", "all pairs"]
    results = json.loads((out / "results.json").read_text())
    margins = [part["found"]["margins"] for part in results["parts"].values()]
    assert len((out / "pairs.jsonl").read_text().splitlines()) == len(margins[0]) == 56
    shares = [100 * sum(margin > 0 for margin in each) / 56 for each in margins]
    total = tables["agreement"].rows[-1]
    assert [cell.value for cell in total[2:]] == pytest.approx(shares)
    assert total[2].low < shares[0] < total[2].high
    [row] = tables["comparison"].rows
    assert row[2].value == pytest.approx(shares[1] - shares[0])
    [chart] = page.charts
    assert (chart.levels[0].height, len(chart.x_names)) == (50.0, 6)


def test_a_stopped_study_scores_only_what_is_left_or_changed(make_folder, tmp_path, monkeypatch):
    out, first, second = tmp_path / "out", make_folder("a"), make_folder("b", seed=5)
    real, scored = agreement.score_pairs, []

    def score(*args, **options):
        scored.append(1)
        if len(scored) == 2:
            raise KeyboardInterrupt
        return real(*args, **options)

    monkeypatch.setattr(agreement, "score_pairs", score)
    with pytest.raises(KeyboardInterrupt):
        run(out, first, second)
    page = run(out, first, second)
    assert len(scored) == 3
    assert run(out, first, second) == page
    assert len(scored) == 3
    make_folder("a", seed=7)
    run(out, first, second)
    assert len(scored) == 4
    run(out, first, data=str(write_pairs(tmp_path / "own.jsonl", ("The boys was.", "The boys were."))))
    assert len(scored) == 5
    with pytest.raises(InputError, match="num_pairs.* 3 .* 2"):
        run(out, first, num_pairs=3)


def test_a_model_that_cannot_be_scored_is_skipped(make_folder, tmp_path):
    headless = make_folder("headless", heads=("sop",))
    page = run(tmp_path / "out", headless, str(tmp_path / "absent"), make_folder("a"))
    assert [column.name for column in page.tables[0].columns][2:] == ["a"]
    with pytest.raises(InputError, match="1 models"):
        run(tmp_path / "other", headless)
