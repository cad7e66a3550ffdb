"""Names resolve to paths: against a hub on the loopback interface, never the real one."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from albert.errors import FileFormatError, InputError
from albert.pretrained import hub as hub_names
from albert.pretrained.hub import find_vocabulary_path, resolve_source

COMMIT = "a" * 40
SMALL_FILES = {
    "config.json": b"{}",
    "spiece.model": b"pieces",
    "tokenizer.json": b"[]",
    "README.md": b"# card",
    "added_tokens.json": b'{"<e1>": 12}',
}
REPOS = {
    "albert/both": {
        **SMALL_FILES,
        "model.safetensors": b"safe",
        "pytorch_model.bin": b"x",
        "tf_model.h5": b"x",
    },
    "albert/pickled": {**SMALL_FILES, "pytorch_model.bin": b"pickle", "rust_model.ot": b"x"},
    "albert/weightless": SMALL_FILES,
    "albert/phonemes": {"config.json": b"{}", "symbols.txt": b"a\nb\n", "model.safetensors": b"safe"},
    "flat-name": {**SMALL_FILES, "model.safetensors": b"safe", "sub/config.json": b"x"},
}
# What the hub answers for a model it does not hand out: status and its X-Error-Code.
REFUSALS = {
    "albert/gated": (403, "GatedRepo"),
    "albert/private": (401, "RepoNotFound"),
    "albert/broken": (500, ""),
}


@dataclass
class Hub:
    """A little hub and the list of what it was asked."""

    url: str
    requests: list[str] = field(default_factory=list)

    def files_sent(self) -> set[str]:
        """The files whose content was asked for."""
        return {
            r.split(f"/resolve/{COMMIT}/")[1]
            for r in self.requests
            if r.startswith("GET") and "/resolve/" in r
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output clean."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path).strip("/")
        self.hub.requests.append(f"{self.command} {path}")
        if path.startswith("api/models/"):
            self._answer_api(path.removeprefix("api/models/"))
        else:
            repo, _, rest = path.partition("/resolve/")
            content = REPOS.get(repo, {}).get(rest.partition("/")[2])
            self._send(200, content) if content is not None else self._send(404, b"", code="EntryNotFound")

    def _answer_api(self, path: str) -> None:
        repo, _, rest = path.replace("/tree/", "/revision/").partition("/revision/")
        if repo in REFUSALS:
            status, code = REFUSALS[repo]
            self._send(status, b"", code=code)
        elif repo not in REPOS:
            self._send(404, b"", code="RepoNotFound")
        elif rest not in ("", "main", COMMIT):
            self._send(404, b"", code="RevisionNotFound")
        else:
            files = REPOS[repo]
            listing = [
                {"type": "file", "path": name, "size": len(body), "oid": hashlib.sha1(body).hexdigest()}
                for name, body in files.items()
            ]
            siblings = [{"rfilename": name} for name in files]
            info = {
                "id": repo,
                "modelId": repo,
                "sha": COMMIT,
                "siblings": siblings,
                "tags": [],
                "private": False,
            }
            self._send(200, json.dumps(listing if "/tree/" in path else info).encode())

    def _send(self, status: int, body: bytes, *, code: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{hashlib.sha1(body).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        if code:
            self.send_header("X-Error-Code", code)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@pytest.fixture
def hub() -> Iterator[Hub]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    _Handler.hub = Hub(url=f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield _Handler.hub
    server.shutdown()
    thread.join()
    server.server_close()


# huggingface_hub reads its variables once, on import: every look at it has a process of its own.
_SCRIPT = """
import json, sys
from albert.errors import AlbertError
from albert.pretrained.hub import resolve_source
answers = []
for argument in sys.argv[1:]:
    name, _, revision = argument.partition("@")
    try:
        answers.append(str(resolve_source(name, revision=revision or None)))
    except AlbertError as error:
        answers.append(f"{type(error).__name__}: {error}")
print(json.dumps(answers))
"""


def resolve(*names: str, url: str, home: Path, is_offline: bool = False) -> list[str]:
    """The path or the error that each name, or name@revision, gives in a fresh process."""
    env = {
        k: v for k, v in os.environ.items() if not k.startswith("HF_") and not k.lower().endswith("_proxy")
    }
    env |= {"HF_ENDPOINT": url, "HF_HOME": str(home), "HF_HUB_OFFLINE": str(int(is_offline))}
    command = [sys.executable, "-c", _SCRIPT, *names]
    done = subprocess.run(command, env=env, cwd=home, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert all("\n" not in answer for answer in answers)
    return [str(answer) for answer in answers]


def test_fetches_only_what_is_read_and_then_needs_no_hub(hub: Hub, tmp_path: Path) -> None:
    names = ("albert/both", "albert/pickled", "flat-name")
    online = resolve(*names, url=hub.url, home=tmp_path)

    for name, folder in zip(names, online, strict=True):
        weights = "pytorch_model.bin" if name == "albert/pickled" else "model.safetensors"
        wanted = {**SMALL_FILES, weights: REPOS[name][weights]}
        assert {p.name: p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()} == wanted
        assert folder.startswith(str(tmp_path))
    assert hub.files_sent() == {*SMALL_FILES, "model.safetensors", "pytorch_model.bin"}
    assert not [r for r in hub.requests if "albert/both" in r and r.endswith(("pytorch_model.bin", ".h5"))]

    hub.requests.clear()
    assert resolve(*names, url=hub.url, home=tmp_path, is_offline=True) == online
    assert hub.requests == []
    # Without HF_HUB_OFFLINE, but with nobody listening: the cache will do as well.
    assert resolve(*names, url="http://127.0.0.1:9", home=tmp_path) == online


def test_names_the_hub_does_not_hand_out_are_rejected_with_the_hint(hub: Hub, tmp_path: Path) -> None:
    typo, released, unknown, gated, private, broken, weightless, malformed = resolve(
        "albert/albert-bse-v2",
        "nanno",
        "nobody/nothing",
        *REFUSALS,
        "albert/weightless",
        "a name with spaces",
        url=hub.url,
        home=tmp_path,
    )
    assert typo.startswith("InputError: 'albert/albert-bse-v2' is neither")
    assert typo.endswith("did you mean albert/albert-base-v2?")
    assert released.endswith("did you mean nano?")
    assert "'nobody/nothing' is neither" in unknown
    assert "hf auth login" in gated
    assert "log in if the model is private" in private
    assert "'albert/broken' is not in the cache" in broken
    assert "500" in broken
    assert weightless.startswith(
        "FileFormatError: 'albert/weightless' has no model.safetensors or pytorch_model.bin"
    )
    assert "'a name with spaces' is neither" in malformed


def test_a_revision_is_honoured_or_rejected(hub: Hub, tmp_path: Path) -> None:
    found, refused = resolve(f"flat-name@{COMMIT}", "albert/both@v9", url=hub.url, home=tmp_path)
    assert found.endswith(COMMIT)
    assert "GET api/models/flat-name/revision/main" not in hub.requests
    assert refused.startswith("InputError: 'albert/both' has no revision 'v9'")


def test_offline_and_not_cached_says_so(hub: Hub, tmp_path: Path) -> None:
    (answer,) = resolve("albert/both", url=hub.url, home=tmp_path, is_offline=True)
    assert answer.startswith("InputError: 'albert/both' is not in the cache")
    assert "HF_HUB_OFFLINE=1" in answer
    assert hub.requests == []


def test_no_network_says_so(tmp_path: Path) -> None:
    (answer,) = resolve("albert/both", url="http://127.0.0.1:9", home=tmp_path)
    assert answer.startswith("InputError: 'albert/both' is not in the cache")


def test_offline_a_missing_card_is_forgiven_and_missing_weights_are_not(hub: Hub, tmp_path: Path) -> None:
    (folder,) = resolve("albert/both", url=hub.url, home=tmp_path)
    (Path(folder) / "README.md").unlink()
    assert resolve("albert/both", url=hub.url, home=tmp_path, is_offline=True) == [folder]
    (Path(folder) / "model.safetensors").unlink()
    (answer,) = resolve("albert/both", url=hub.url, home=tmp_path, is_offline=True)
    # The library's versions differ in whether they notice; the hint is the same.
    assert "Error: 'albert/both' " in answer
    assert answer.endswith("online, or give a local folder")


def test_what_exists_here_wins_over_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "albert" / "albert-base-v2").mkdir(parents=True)
    weights = tmp_path / "model.safetensors"
    weights.touch()

    assert resolve_source("albert/albert-base-v2").samefile(tmp_path / "albert" / "albert-base-v2")
    assert resolve_source("~/albert") == tmp_path / "albert"
    assert resolve_source(weights) == weights
    with pytest.raises(InputError, match="'albert' .* no revision 'v2'"):
        resolve_source("albert", revision="v2")


@pytest.mark.parametrize(
    "path",
    ["./run", "../run", "/nowhere/run", "~/run", "run/", "a/b/c", "run.safetensors", "run.bin", Path("run")],
)
def test_a_path_that_does_not_exist_is_never_asked_of_the_hub(
    path: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(FileFormatError, match="does not exist"):
        resolve_source(path)


def test_the_hub_library_is_imported_only_when_asked() -> None:
    script = "import sys, albert.pretrained.hub; sys.exit('huggingface_hub' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 0


@pytest.mark.parametrize("place", ["typo/", "./typo", "vcab/spiece.model", "vocab.txt"])
def test_a_vocabulary_written_as_a_path_is_never_asked_of_the_hub(
    place: str, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hub_names, "_fetch", lambda *_: pytest.fail("the hub was asked"))
    with pytest.raises(FileFormatError, match="does not exist"):
        find_vocabulary_path(place)


def test_the_vocabulary_of_an_original_checkpoint_is_found_beside_it(tmp_path: Path) -> None:
    source = Path(__file__).parents[1] / "data" / "tensorflow_albert"
    folder = Path(shutil.copytree(source, tmp_path / "albert"))
    (folder / "30k-clean.model").write_bytes(b"a model of SentencePiece")
    assert find_vocabulary_path(str(folder)) == folder / "30k-clean.model"
