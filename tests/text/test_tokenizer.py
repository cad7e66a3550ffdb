"""What all tokenizers share: masks, special tokens, sequences."""

import pickle

from albert.text.tokenizer import Encoding, InputSequence


def test_masks_are_found_on_request(tokenizer, wordpiece):
    text = "the [MASK] left[MASK]"
    for each in (tokenizer, wordpiece):
        assert each.mask_id not in each.encode(text).ids
        encoding = each.encode(text, masks=True)
        assert encoding.ids.count(each.mask_id) == 2
        assert encoding.ids[-1] == each.mask_id
        spelled = [text[start:end] for start, end in encoding.spans]
        assert "".join(spelled) == each.decode(encoding.ids).replace(" ", "") == text.replace(" ", "")


def test_special_tokens_in_a_text_are_text(tokenizer, wordpiece):
    for each in (tokenizer, wordpiece):
        ids = each.encode("[CLS] the [SEP] [MASK] <pad> [PAD]").ids
        assert not {each.pad_id, each.cls_id, each.sep_id, each.mask_id} & set(ids)


def test_sequence_of_two_texts_counts_spans_in_each(wordpiece):
    first, second = Encoding((7, 8), ((0, 1), (1, 4))), Encoding((9,), ((2, 3),))
    cls, sep = wordpiece.cls_id, wordpiece.sep_id
    assert wordpiece.build_sequence(first, second) == InputSequence(
        ids=(cls, 7, 8, sep, 9, sep),
        segments=(0, 0, 0, 0, 1, 1),
        spans=((0, 0), (0, 1), (1, 4), (4, 4), (2, 3), (3, 3)),
    )


def test_empty_text_has_no_tokens(tokenizer, wordpiece):
    for each in (tokenizer, wordpiece):
        assert each.encode(" \n") == Encoding((), ())
        assert each.build_sequence(each.encode("")).ids == (each.cls_id, each.sep_id)


def test_half_a_surrogate_pair_is_replaced(tokenizer, wordpiece):
    for each in (tokenizer, wordpiece):
        text = "the \ud800ship"
        ids = each.encode(text).ids
        assert ids == each.encode("the \ufffdship").ids
        assert each.encode_ids([text]) == [list(ids)]


def test_a_tokenizer_can_be_pickled(tokenizer, wordpiece):
    for each in (tokenizer, wordpiece):
        copy = pickle.loads(pickle.dumps(each))
        assert copy.fingerprint == each.fingerprint
        assert copy.encode("the Ship, left") == each.encode("the Ship, left")
