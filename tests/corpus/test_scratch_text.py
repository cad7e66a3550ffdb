from hypothesis import given
from hypothesis import strategies as st

from albert.data import scratch_text
from albert.data.paragraphs import RawDocument
from albert.data.units import read_documents, write_documents

PARAGRAPH = st.text(alphabet=st.characters(min_codepoint=32, exclude_categories=["Cc", "Cs"]), min_size=1)
DOCUMENT = st.builds(RawDocument, st.lists(PARAGRAPH, min_size=1, max_size=4), is_split=st.booleans())


@given(st.lists(DOCUMENT, max_size=8))
def test_documents_pass_through_and_come_back(tmp_path_factory, documents):
    path = tmp_path_factory.mktemp("scratch") / "text.zst"
    assert list(write_documents(path, documents)) == documents
    assert list(read_documents(path)) == documents


def test_documents_across_blocks_come_back(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch_text, "BLOCK_BYTES", 100)
    documents = [RawDocument([f"{k} " * 500_000, "é"], is_split=k == 1) for k in range(4)]
    list(write_documents(tmp_path / "text.zst", documents))
    assert list(read_documents(tmp_path / "text.zst")) == documents
