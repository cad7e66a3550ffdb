"""A plain corpus preparation in the published style: text in memory, Python lists, one sentence at a time.

The alternative that bench/prepare.py measures against.
"""

import pickle
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from sentencepiece import SentencePieceProcessor

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[A-Z])")


def preprocess_text(text: str) -> str:
    """Normalize white space, quotation marks, accents and case, as published."""
    outputs = " ".join(text.strip().split())
    outputs = outputs.replace("``", '"').replace("''", '"')
    outputs = unicodedata.normalize("NFKD", outputs)
    outputs = "".join([char for char in outputs if not unicodedata.combining(char)])
    return outputs.lower()


def encode_pieces(processor: SentencePieceProcessor, text: str) -> list[str]:
    """Encode a text into pieces, with the rule for a digit and a comma, as published."""
    new_pieces: list[str] = []
    for piece in processor.encode(text, out_type=str):
        if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
            cut = processor.encode(piece[:-1].replace("▁", ""), out_type=str)
            if piece[0] != "▁" and cut[0][0] == "▁":
                cut = cut[1:] if len(cut[0]) == 1 else [cut[0][1:], *cut[1:]]
            new_pieces.extend([*cut, piece[-1]])
        else:
            new_pieces.append(piece)
    return new_pieces


def prepare_in_memory(paths: Sequence[Path], *, vocab: Path, out: Path) -> int:
    """Pickle all documents as lists of lists of ids; return the number of tokens."""
    processor = SentencePieceProcessor(model_file=str(vocab))
    seen: set[str] = set()
    all_documents: list[list[list[int]]] = []
    for path in paths:
        text = path.read_text(encoding="utf-8-sig", errors="replace").replace("\r\n", "\n")
        document: list[list[int]] = []
        for block in re.split(r"\n\s*\n", text):
            paragraph = " ".join(block.split())
            if not paragraph or paragraph in seen:
                continue
            if len(paragraph) >= 64:
                seen.add(paragraph)
            for sentence in _SENTENCE_END.split(paragraph):
                tokens = encode_pieces(processor, preprocess_text(sentence))
                if tokens:
                    document.append([processor.piece_to_id(token) for token in tokens])
        if document:
            all_documents.append(document)
    with out.open("wb") as file:
        pickle.dump(all_documents, file)
    return sum(len(sentence) for document in all_documents for sentence in document)
