"""The losses of question answering are those of `transformers`."""

import pytest
import torch
import transformers
from torch.nn.utils.rnn import pad_sequence
from transformers.models.xlm.modeling_xlm import XLMSQuADHead

from albert.model.albert_model import build_model
from albert.model.config import ModelConfig
from albert.pretrained.folder import load_vocabulary
from tests.conftest import WORDS
from tests.tasks.questions import build_qa, write_questions

from .pairs import build_pair
from .test_transformers import albert_config

# Theirs: ours. Both follow XLNet.
BEAM_NAMES = {
    "start_logits.dense": "start",
    "end_logits.dense_0": "end_dense",
    "end_logits.LayerNorm": "end_norm",
    "end_logits.dense_1": "end",
    "answer_class.dense_0": "answer_dense",
    "answer_class.dense_1": "answer",
}


def test_starts_and_ends_of_squad_1_1(tiny_folder, tmp_path):
    """In windows of one length, because their softmax includes padding."""
    task = build_qa(max_length=24)
    examples = write_questions(8, seed=1, num_others=9)
    windows = [
        window for window in task.encode(examples, load_vocabulary(tiny_folder)) if window.num_tokens == 24
    ]
    pair = build_pair(transformers.AlbertForQuestionAnswering, albert_config(), tmp_path)
    answers = torch.tensor([window.answer or (0, 0) for window in windows])
    assert 0 < int((answers[:, 0] > 0).sum()) < len(windows)
    theirs = pair.theirs(
        input_ids=torch.tensor([window.sequence.ids for window in windows]),
        token_type_ids=torch.from_numpy(task.build_batch(windows).segments_T).view(len(windows), 24),
        start_positions=answers[:, 0],
        end_positions=answers[:, 1],
    ).loss
    total, _ = task.compute_losses(pair.ours, task.build_batch(windows))["span"]
    assert total.item() / len(windows) == pytest.approx(theirs.item(), rel=1e-5)


@torch.no_grad()
def test_starts_and_ends_of_squad_2_0_and_odds_for_no_answer(tiny_folder):
    """The odds are compared in prediction: in training theirs use the true start, ours the likely one."""
    task = build_qa(has_impossible=True)
    examples = write_questions(8, seed=1, num_others=2, impossible_share=0.5)
    windows = task.encode(examples, load_vocabulary(tiny_folder))
    config = ModelConfig(
        vocab_size=len(WORDS), embedding_size=8, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=40, initializer_range=0.5,
    )  # fmt: skip
    model = build_model(config, heads=task.heads, seed=3)
    theirs = XLMSQuADHead(transformers.XLMConfig(emb_dim=16, layer_norm_eps=config.layer_norm_eps)).eval()
    ours = model.head("beam_span").state_dict()
    theirs.load_state_dict(
        {name: ours[f"{BEAM_NAMES[name.rpartition('.')[0]]}.{name.rpartition('.')[2]}"]
         for name in theirs.state_dict()}
    )  # fmt: skip
    batch = task.build_batch(windows)
    tokens = batch.build_tokens()
    states = pad_sequence(list(model(tokens).last_TD.split(tokens.lengths)), batch_first=True)
    answers = torch.from_numpy(batch.labels.answers_B2)
    mask = torch.ones(states.shape[:2])
    for row, window in zip(mask, windows, strict=True):
        row[window.context_start : window.context_end] = 0
        row[0] = 0
    (loss,) = theirs(states, start_positions=answers[:, 0], end_positions=answers[:, 1], p_mask=mask)
    total, _ = task.compute_losses(model, batch)["span"]
    assert total.item() / len(windows) == pytest.approx(loss.item(), rel=1e-5)
    first = torch.zeros(len(windows), dtype=torch.long)
    odds = theirs(states, cls_index=first, p_mask=mask)[-1]
    assert [output.null_odds for output in task.predict(model, batch, windows)] == pytest.approx(
        odds.tolist(), abs=1e-5
    )
