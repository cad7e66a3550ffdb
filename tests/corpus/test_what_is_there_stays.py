"""Preparing into a folder that holds something: what is not ours is not touched, what is whole stays so."""

import gzip
import os
import sys

import pytest

from albert.data import prepare as module
from albert.data.engines import build_engine
from albert.data.prepare import prepare_corpus
from albert.data.sources import SurveyTask, find_sources
from albert.data.storage import LocalFolder
from albert.data.units import PrepareSettings
from albert.errors import AlbertError, InputError
from albert.text.folder import save_tokenizer
from albert.text.symbol_tokenizer import SymbolOptions, build_symbol_vocabulary
from tests.conftest import read_tree
from tests.corpus.conftest import PARAGRAPHS
from tests.corpus.test_prepare import Listener, prepare, read_texts


def test_a_folder_with_a_manifest_of_something_else_keeps_its_hidden_files(books, vocab_path, tmp_path):
    mine = tmp_path / "extension"
    (mine / "vocab").mkdir(parents=True)
    names = ("manifest.json", ".eslintrc.json", ".env.local", "vocab/.keep.me12345")
    for name in names:
        (mine / name).write_text("{}")
    before = read_tree(mine)
    with pytest.raises(AlbertError, match=r"manifest\.json"):
        prepare(books, vocab_path, mine)
    with pytest.raises(AlbertError, match=r"manifest\.json"):
        prepare(books, vocab_path, mine, overwrite=True)
    assert read_tree(mine) == before


def test_what_a_killed_run_was_writing_is_swept_and_nothing_else(books, vocab_path, tmp_path):
    out = tmp_path / "out"
    prepare(books, vocab_path, out)
    left = out / "shards" / ".00000-000.arrow.ab1_x9zq"  # as mkstemp names it
    mine = out / ".gitignore.mine"
    left.touch()
    mine.touch()
    prepare(books, vocab_path, out)
    assert mine.exists()
    assert not left.exists()


def test_a_finished_corpus_outlives_a_damaged_source_that_is_added(books, vocab_path, tmp_path):
    out = tmp_path / "out"
    prepare(books, vocab_path, out)
    tree = read_tree(out)
    (books / "z_more.txt.gz").write_bytes(gzip.compress("\n\n".join(PARAGRAPHS).encode())[:-20])
    with pytest.raises(AlbertError, match=r"z_more\.txt\.gz"):
        prepare(books, vocab_path, out)
    kept = {name: data for name, data in read_tree(out).items() if not name.startswith(".prepare")}
    assert kept == tree
    (books / "z_more.txt.gz").unlink()
    prepare(books, vocab_path, out)
    assert read_tree(out) == tree


def test_a_corpus_inside_the_folder_of_its_sources_is_no_source(books, vocab_path, tmp_path):
    """With vocab.txt in it, which looks like one."""
    out = books / "corpus"
    first = prepare(books, vocab_path, out)
    listener = Listener()
    assert prepare(books, vocab_path, out, reporter=listener) == first
    assert any("is prepared already" in line for line in listener.lines)


def test_of_sources_that_share_a_name_none_is_dropped_unasked(vocab_path, tmp_path):
    places = []
    for folder, text in (("en", PARAGRAPHS[0]), ("de", PARAGRAPHS[1])):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "part.txt").write_text(text)
        places.append(tmp_path / folder / "part.txt")
    both = prepare_corpus(places, vocab=vocab_path, out=tmp_path / "out")
    assert both.num_documents == 2
    with pytest.raises(InputError, match=r"other sources \(part\.txt is not among these\)"):
        prepare_corpus(places[:1], vocab=vocab_path, out=tmp_path / "out")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems' names are Unicode")
def test_a_name_that_is_not_utf8_is_refused_before_any_work(tmp_path):
    with open(os.fsencode(tmp_path) + b"/caf\xe9.txt", "w", encoding="utf-8") as file:
        file.write("text")
    with pytest.raises(InputError, match=r"caf\\udce9\.txt': its name is not in UTF-8; rename it"):
        find_sources([tmp_path])


def test_symbols_without_spaces_are_no_rubbish(tmp_path):
    """A line of 300 letters is a hash in a text, and a sentence where each letter is a phoneme."""
    lines = ["AERBDK" * 50, "BDKAER" * 40]
    (tmp_path / "phones.txt").write_text("\n\n".join(lines) + "\n")
    options = SymbolOptions(is_per_character=True)
    save_tokenizer(build_symbol_vocabulary(iter(lines), options=options), tmp_path / "symbols")
    manifest = prepare_corpus([tmp_path / "phones.txt"], vocab=tmp_path / "symbols", out=tmp_path / "out")
    assert manifest.num_pieces == 540
    assert "long_tokens" not in manifest.dropped
    assert "".join(text for document in read_texts(tmp_path / "out") for text in document) == "".join(lines)


def test_of_symbols_brackets_and_numbers_are_no_ornaments(tmp_path):
    """The shape of an RNA is written below it in brackets and dots."""
    lines = [line for k in range(20) for line in ("GCAUUGC", "((...))", "1234")]
    (tmp_path / "rna.txt").write_text("\n".join(lines) + "\n")
    options = SymbolOptions(is_per_character=True)
    save_tokenizer(build_symbol_vocabulary(iter(lines), options=options), tmp_path / "symbols")
    settings = PrepareSettings(layout="sentences")
    manifest = prepare_corpus(
        [tmp_path / "rna.txt"], vocab=tmp_path / "symbols", out=tmp_path / "out", settings=settings
    )
    assert manifest.num_pieces == sum(map(len, lines))


def test_what_other_settings_found_is_not_gone_on_with(books, vocab_path, tmp_path, monkeypatch):
    """A survey that was cut short must not vouch for what an earlier one found."""
    monkeypatch.setattr(module, "_SECONDS_BETWEEN_SAVES", -1.0)
    sources, scratch = find_sources([books]), LocalFolder(tmp_path / "scratch")

    def survey(layout, engine):
        tasks = [SurveyTask(source, "text", layout, 4000) for source in sources]
        return module.survey_sources(tasks, scratch, engine=engine, reporter=Listener())

    class Stopped:
        def run(self, function, tasks):
            yield tasks[0], function(tasks[0])
            raise KeyboardInterrupt

    with build_engine("local") as engine:
        survey(None, engine)
        with pytest.raises(KeyboardInterrupt):
            survey("sentences", Stopped())
        found = survey("sentences", engine)
    assert {each.layout for each in found if not each.skipped} == {"sentences"}


def test_a_file_that_is_named_twice_is_prepared_again_as_before(books, vocab_path, tmp_path):
    places = [books, books / "b_wrapped.txt"]
    first = prepare_corpus(places, vocab=vocab_path, out=tmp_path / "out")
    assert prepare_corpus(places, vocab=vocab_path, out=tmp_path / "out") == first


def test_sources_below_the_corpus_are_refused_for_what_they_are(books, vocab_path):
    with pytest.raises(InputError, match=r"all that is to be read lies in it; choose another --out"):
        prepare_corpus([books], vocab=vocab_path, out=books.parent)
