"""A model's preferences: what its head says at the masked word, whatever is around it."""

import re
from collections import Counter

import pytest
import torch

from albert.errors import InputError
from albert.inference.predictor import Predictor
from albert.model.albert_model import AlbertModel, build_model
from albert.model.tokens import Tokens
from albert.study.agreement import scoring
from albert.study.agreement.grammar import Draft
from albert.study.agreement.pairs import Pair, generate_pairs
from albert.study.agreement.scoring import Question, build_questions, find_margins, score_agreement
from albert.study.agreement.settings import AgreementSettings
from albert.text.folder import load_tokenizer
from albert.text.tokenizer import MASK, Tokenizer
from albert.text.train_vocabulary import VocabularySettings, train_sentencepiece
from tests.conftest import WORDS, write_vocabulary
from tests.study.agreement.conftest import SMALL, SPECIAL, build_tiny

PAIRS = generate_pairs(SMALL)


@pytest.fixture
def tiny(words_tokenizer: Tokenizer) -> AlbertModel:
    return build_tiny(words_tokenizer)


def prefer(tokenizer: Tokenizer, scores: dict[str, float]) -> AlbertModel:
    """A model that looks at nothing: its logits are the bias of its head."""
    model = build_tiny(tokenizer)
    head = model.head("mlm")
    with torch.no_grad():
        for name in ("norm.weight", "norm.bias"):
            head.get_parameter(name).zero_()
        for word, score in scores.items():
            [piece] = tokenizer.encode(word).ids
            head.get_parameter("bias")[piece] = score
    return model


def ask_fill_mask(predictor: Predictor, pair: Pair, *, depth: int | None = None) -> float:
    """log p(good) − log p(bad), as a person would ask for it."""
    text = f"{pair.draft.before} {MASK} {pair.draft.after}.".strip()
    [[candidates]] = predictor.fill_mask([text], top=predictor.tokenizer.vocab_size, depth=depth)
    log_p = {each.id: torch.tensor(each.probability).log().item() for each in candidates}
    good, bad = (predictor.tokenizer.encode(word).ids[0] for word in (pair.draft.good, pair.draft.bad))
    return log_p[good] - log_p[bad]


def test_a_model_that_looks_at_nothing_goes_by_its_bias(words_tokenizer):
    model = prefer(words_tokenizer, {"was": 2.0, "were": 0.5, "himself": 1.0})
    margins = find_margins(model, words_tokenizer, PAIRS)
    wanted = {("was", "were"): 1.5, ("were", "was"): -1.5, ("himself", "themselves"): 1.0, ("he", "him"): 0.0}
    for pair, margin in zip(PAIRS, margins, strict=True):
        choice = pair.draft.good, pair.draft.bad
        if choice in wanted:
            assert margin == pytest.approx(wanted[choice])


def test_frequency_alone_decides_half_of_the_pairs(words_tokenizer):
    words = {word for pair in PAIRS for word in (pair.draft.good, pair.draft.bad)} - {"laughs"}
    scores = {word: 1.0 + place for place, word in enumerate(sorted(words))}
    found = score_agreement(prefer(words_tokenizer, scores), words_tokenizer, settings=SMALL)
    assert all(each.accuracy == 0.5 for each in found.phenomena)
    assert found.mean == 0.5


def test_who_knows_no_preference_is_not_right(words_tokenizer):
    found = score_agreement(prefer(words_tokenizer, {}), words_tokenizer, settings=SMALL)
    assert found.mean == 0.0


def test_margins_are_those_of_fill_mask(tiny, words_tokenizer):
    margins = find_margins(tiny, words_tokenizer, PAIRS)
    predictor = Predictor(tiny, words_tokenizer)
    asked = [place for place in (0, 57, 130, 250, 319) if margins[place] is not None]
    assert len(asked) > 2
    for place in asked:
        assert margins[place] == pytest.approx(ask_fill_mask(predictor, PAIRS[place]), abs=1e-4)


def test_depth_is_that_of_the_question(tiny, words_tokenizer):
    settings = SMALL.model_copy(update={"depth": 1})
    shallow = score_agreement(tiny, words_tokenizer, settings=settings)
    wanted = ask_fill_mask(Predictor(tiny, words_tokenizer), PAIRS[0], depth=1)
    assert shallow.margins[0] == pytest.approx(wanted, abs=1e-4)
    assert shallow != score_agreement(tiny, words_tokenizer, settings=SMALL)


def test_all_pieces_of_a_word_are_masked_and_summed(tmp_path):
    words = ["the", "dog", "home", ".", "walk", "##ed", "##ing"]
    path = write_vocabulary(tmp_path / "vocab.txt", [*SPECIAL, *words])
    tokenizer = load_tokenizer(path)
    pair = Pair("simple", 0, Draft("The dog", "walked", "walking", "home"))
    [question] = build_questions([pair], tokenizer)
    mask = tokenizer.mask_id
    assert [tokenizer.piece(each) for each in question.good] == ["walk", "##ed"]
    assert question.ids[3:5] == (mask, mask)
    assert question.ids.count(mask) == 2

    model = build_tiny(tokenizer)
    predictor = Predictor(model, tokenizer)
    [[first, second]] = predictor.fill_mask([f"The dog {MASK}{MASK} home."], top=tokenizer.vocab_size)
    log_p = {each.id: torch.tensor(each.probability).log().item() for each in second}
    assert len(first) == tokenizer.vocab_size
    ed, ing = question.good[1], question.bad[1]
    assert find_margins(model, tokenizer, [pair])[0] == pytest.approx(log_p[ed] - log_p[ing], abs=1e-4)


def test_words_cut_unlike_are_left_out_with_their_whole_frame(words_tokenizer):
    settings = AgreementSettings(num_pairs=1000, phenomena=("simple",))
    pairs = generate_pairs(settings)
    margins = find_margins(build_tiny(words_tokenizer), words_tokenizer, pairs)
    left_out = [pair for pair, margin in zip(pairs, margins, strict=True) if margin is None]
    asked = [pair for pair, margin in zip(pairs, margins, strict=True) if margin is not None]
    assert any(pair.draft.good == "laughs" for pair in left_out)
    assert all("laugh" not in pair.draft.good for pair in asked)
    assert asked
    assert {pair.frame for pair in left_out}.isdisjoint(pair.frame for pair in asked)
    choices = Counter((pair.draft.good, pair.draft.bad) for pair in asked)
    assert all(choices[bad, good] == count for (good, bad), count in choices.items())


def test_what_was_left_out_is_counted(words_tokenizer):
    pairs = [
        Pair("simple", 0, Draft("The author", "laughs", "laugh", "at everything")),
        Pair("simple", 1, Draft("The author", "was", "were", "very tired")),
        Pair("simple", 2, Draft("The unheard", "was", "were", "very tired")),
    ]
    questions = build_questions(pairs, words_tokenizer)
    assert [question is None for question in questions] == [True, False, True]
    found = scoring.summarise(pairs, find_margins(build_tiny(words_tokenizer), words_tokenizer, pairs))
    assert (found.num_pairs, found.num_left_out) == (1, 2)


def test_the_size_of_a_batch_changes_nothing(tiny, words_tokenizer, monkeypatch):
    num_asked = []
    whole = find_margins(tiny, words_tokenizer, PAIRS, advance=num_asked.append)
    assert sum(num_asked) == sum(margin is not None for margin in whole)
    monkeypatch.setattr(scoring, "MAX_BATCH_TOKENS", 50)
    parts = find_margins(tiny, words_tokenizer, PAIRS)
    assert [margin for margin in parts if margin is not None] == pytest.approx(
        [margin for margin in whole if margin is not None], abs=1e-4
    )


def test_dropout_is_off_and_on_again(words_tokenizer):
    model = build_tiny(words_tokenizer, hidden_dropout_prob=0.5)
    quiet = find_margins(model, words_tokenizer, PAIRS)
    model.train()
    assert find_margins(model, words_tokenizer, PAIRS) == quiet
    assert model.training


def test_sentencepiece_cuts_the_word_as_it_stands():
    lines = [text for pair in PAIRS for text in (pair.good, pair.bad)]
    tokenizer = train_sentencepiece(lines, settings=VocabularySettings(size=300))
    questions = build_questions(PAIRS, tokenizer)
    asked = [each for each in zip(PAIRS, questions, strict=True) if each[1] is not None]
    assert len(asked) > 100
    for pair, question in asked:
        assert question.good == tokenizer.encode(pair.draft.good).ids
        assert question.bad == tokenizer.encode(pair.draft.bad).ids
        around = re.sub(r"\s*\[MASK\]", "", tokenizer.decode(question.ids)).split()
        assert around == f"{pair.draft.before} {pair.draft.after}.".lower().split()
        place = question.first_mask
        assert question.ids[place : place + len(question.good)] == (tokenizer.mask_id,) * len(question.good)


def test_a_model_without_the_head_is_refused(words_tokenizer):
    config = build_tiny(words_tokenizer).config
    model = build_model(config, heads={"sop": None})
    with pytest.raises(InputError, match="this model has no mlm head; it has sop"):
        score_agreement(model, words_tokenizer, settings=SMALL)


def test_a_vocabulary_without_the_words_is_refused(tmp_path):
    tokenizer = load_tokenizer(write_vocabulary(tmp_path / "vocab.txt", WORDS))
    with pytest.raises(InputError, match="of 320 pairs the vocabulary cuts the two words into"):
        score_agreement(build_tiny(tokenizer), tokenizer, settings=SMALL)


def test_a_model_that_has_learned_a_rule_is_right(tmp_path):
    asked, other = (AgreementSettings(num_pairs=400, phenomena=("determiner",), seed=seed) for seed in (0, 1))
    lessons = generate_pairs(other)
    texts = " ".join(pair.good.lower() for pair in (*lessons, *generate_pairs(asked)))
    words = sorted(set(texts.replace(".", " . ").split()))
    tokenizer = load_tokenizer(write_vocabulary(tmp_path / "vocab.txt", [*SPECIAL, *words]))
    model = build_tiny(tokenizer, num_hidden_layers=1)
    assert 0.4 < score_agreement(model, tokenizer, settings=asked).mean < 0.6
    teach(model, [question for question in build_questions(lessons, tokenizer) if question is not None])
    assert score_agreement(model, tokenizer, settings=asked).mean > 0.8


def teach(model: AlbertModel, questions: list[Question]) -> None:
    """Masked-language modelling of the right words alone."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(200):
        batch = questions[step % 8 :: 8]
        tokens = Tokens.from_lists([question.ids for question in batch])
        places_M = tokens.first_B + torch.tensor([question.first_mask for question in batch])
        logits_MV = model.word_logits(model(tokens).last_TD, places_M)
        loss = torch.nn.functional.cross_entropy(logits_MV, torch.tensor([q.good[0] for q in batch]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
