"""An accelerated model gives what the original gives, with its own weights, in inference and in training."""

import copy
import inspect
import pickle

import pytest
import torch
import transformers
from peft import LoraConfig, get_peft_model

import albert
from albert.errors import InputError
from albert.model import linear

SIZES = {
    "vocab_size": 50, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48,
    "max_position_embeddings": 20, "attn_implementation": "eager", "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0, "classifier_dropout_prob": 0.0,
}  # fmt: skip
CONFIGS = {
    "Bert": transformers.BertConfig(**SIZES, num_hidden_layers=3),
    "Albert": transformers.AlbertConfig(
        **SIZES, num_hidden_layers=4, embedding_size=16, num_hidden_groups=2, inner_group_num=2
    ),
}
HEADS = (
    "Model", "ForPreTraining", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification",
    "ForQuestionAnswering", "ForMultipleChoice", "ForNextSentencePrediction",
)  # fmt: skip
MODELS = [name + head for name in CONFIGS for head in HEADS if hasattr(transformers, name + head)]
LENGTHS = torch.tensor([5, 11, 1, 9, 11, 7])
RIGHT = (torch.arange(11) < LENGTHS[:, None]).long()
PADDINGS = {"right": RIGHT, "left": RIGHT.flip(1), "none": None}


def build(name):
    torch.manual_seed(0)
    config = copy.deepcopy(CONFIGS["Albert" if name.startswith("Albert") else "Bert"])
    return getattr(transformers, name)(config).eval()


def make_inputs(mask=RIGHT):
    generator = torch.Generator().manual_seed(0)
    ids, segments = (torch.randint(1, high, (6, 11), generator=generator) for high in (50, 2))
    given = {"input_ids": ids, "token_type_ids": segments, "attention_mask": mask}
    return {name: value for name, value in given.items() if value is not None}


def find_difference(first, second, mask):
    """The largest difference at real tokens."""
    if isinstance(first, tuple):
        assert len(first) == len(second)
        return max((find_difference(*pair, mask) for pair in zip(first, second, strict=True)), default=0)
    assert first.shape == second.shape
    difference = (first - second).abs()
    if mask is not None and difference.shape[:2] == mask.shape:
        difference = difference[mask.bool()]
    elif mask is not None and difference.ndim == 4:  # attentions
        difference = difference.transpose(1, 2)[mask.bool()]
    return difference.max().item()


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_those_of_the_original(name, padding):
    mask, theirs = PADDINGS[padding], build(name)
    ours = albert.accelerate(copy.deepcopy(theirs))
    inputs = make_inputs(mask)
    if name.endswith("MultipleChoice"):
        inputs = {key: value.view(3, 2, -1) for key, value in inputs.items()}
    for options in ({}, {"output_hidden_states": True, "output_attentions": True}):
        with torch.no_grad():
            expected, found = theirs(**inputs, **options), ours(**inputs, **options)
        assert type(found) is type(expected)
        assert list(found) == list(expected)
        for key in expected:
            assert find_difference(expected[key], found[key], mask) < 2e-5, key


def test_runs_without_padding():
    model = albert.accelerate(build("BertForMaskedLM"))
    rows = []
    inner = model.bert.encoder.layer[0].intermediate.dense
    inner.register_forward_hook(lambda _, inputs, __: rows.append(inputs[0].shape[0]))
    options = {"num_items_in_batch": torch.tensor(6)}  # from the Trainer
    output = model(**make_inputs(), output_hidden_states=True, **options)
    assert rows == [LENGTHS.sum()]
    assert output.hidden_states[-1][RIGHT == 0].abs().max() == 0


@pytest.mark.parametrize(
    "options",
    [
        {"attention_mask": RIGHT[:, None, None, :] * torch.ones(6, 1, 11, 1)},
        {"attention_mask": torch.zeros_like(RIGHT)},
        {"output_hidden_states": [1]},
        {"input_ids": None, "inputs_embeds": torch.ones(6, 11, 32)},
        {"position_ids": torch.arange(11).flip(0)[None]},
    ],
    ids=["mask", "empty", "layers", "embeddings", "positions"],
)
def test_other_calls_give_the_same(options):
    theirs = build("BertModel")
    ours = albert.accelerate(copy.deepcopy(theirs))
    given = {**make_inputs(), **options}
    expected, found = theirs(**given), ours(**given)
    torch.testing.assert_close(found.pooler_output, expected.pooler_output, atol=2e-5, rtol=0)
    assert list(found) == list(expected)


def test_loss_of_question_answering_counts_padding_like_the_original():
    theirs = build("BertForQuestionAnswering")
    ours = albert.accelerate(copy.deepcopy(theirs))
    labels = {"start_positions": torch.zeros(6).long(), "end_positions": torch.zeros(6).long()}
    losses = [model(**make_inputs(), **labels).loss.item() for model in (theirs, ours)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)


@pytest.mark.parametrize("lora", [None, "before", "after"])
@pytest.mark.parametrize("name", ["Albert", "Bert"])
@pytest.mark.parametrize("has_onednn", [False, True])
def test_training_gives_the_same_weights(name, lora, has_onednn, monkeypatch):
    monkeypatch.setattr(linear, "prefers_onednn", lambda: has_onednn)
    wrap = LoraConfig(task_type="SEQ_CLS", target_modules=["query", "value"], lora_dropout=0.0)
    trained = []
    for is_ours in (False, True):
        model = build(f"{name}ForSequenceClassification")
        torch.manual_seed(1)
        if is_ours and lora != "before":
            model = albert.accelerate(model)
        if lora:
            model = get_peft_model(model, wrap)
        if is_ours:
            model = albert.accelerate(model)
        model.train()
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
        for _ in range(3):
            model(**make_inputs(), labels=torch.arange(6) % 2).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        trained.append(dict(model.named_parameters()))
    for key, expected in trained[0].items():
        torch.testing.assert_close(trained[1][key], expected, atol=1e-5, rtol=0, msg=key)


def test_gradient_checkpointing_gives_the_same_gradients():
    grads = []
    for is_checkpointed in (False, True):
        model = albert.accelerate(build("BertForSequenceClassification")).train()
        if is_checkpointed:
            model.gradient_checkpointing_enable()
        model(**make_inputs(), labels=torch.arange(6) % 2).loss.backward()
        grads.append(model.bert.encoder.layer[0].attention.self.key.weight.grad)
    torch.testing.assert_close(grads[1], grads[0])


def test_is_still_the_users_model(tmp_path):
    model = build("AlbertForSequenceClassification")
    before, signature = dict(model.named_parameters()), inspect.signature(model.forward)
    assert albert.accelerate(model) is model
    assert all(before[name] is parameter for name, parameter in model.named_parameters())
    assert inspect.signature(model.forward) == signature
    model.save_pretrained(tmp_path)
    loaded = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        expected = loaded(**make_inputs()).logits
        for each in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            torch.testing.assert_close(each(**make_inputs()).logits, expected, atol=2e-5, rtol=0)


def test_copies_do_not_use_the_weights_of_the_first():
    model = albert.accelerate(build("BertModel"))
    copied = copy.deepcopy(model)
    torch.nn.init.zeros_(model.embeddings.word_embeddings.weight)
    assert (copied(**make_inputs())[0] - model(**make_inputs())[0]).abs().max() > 0.01


UNSUPPORTED = {
    "distilbert": transformers.DistilBertConfig(dim=8, n_heads=2, hidden_dim=8, n_layers=1),
    "decoder": transformers.BertConfig(**SIZES, num_hidden_layers=1, is_decoder=True),
}


@pytest.mark.parametrize("name", [*UNSUPPORTED, "path"])
def test_unsupported_models(name):
    model = transformers.AutoModel.from_config(UNSUPPORTED[name]) if name in UNSUPPORTED else "folder"
    with pytest.raises(InputError):
        albert.accelerate(model)
