"""Names resolve to paths, with a hub on the loopback interface."""

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
from tests.conftest import rejects

COMMIT = "a" * 40
SMALL_FILES = {
    "config.json": b"{}", "spiece.model": b"model", "tokenizer.json": b"[]", "README.md": b"# card",
    "added_tokens.json": b'{"<e1>": 12}',
}  # fmt: skip
REPOS = {
    "albert/both": {
        **SMALL_FILES, "model.safetensors": b"safe", "pytorch_model.bin": b"x", "tf_model.h5": b"x"
    },
    "albert/pickled": {**SMALL_FILES, "pytorch_model.bin": b"pickle", "rust_model.ot": b"x"},
    "albert/weightless": SMALL_FILES,
    "flat-name": {**SMALL_FILES, "model.safetensors": b"safe", "sub/config.json": b"x"},
}  # fmt: skip
# The status and X-Error-Code of models that the hub does not hand out.
REJECTED = {
    "albert/gated": (403, "GatedRepo"),
    "albert/private": (401, "RepoNotFound"),
    "albert/broken": (500, ""),
}


@dataclass
class Hub:
    """The address of the hub and its requests."""

    url: str
    requests: list[str] = field(default_factory=list)

    def files_sent(self) -> set[str]:
        """The files whose content was requested."""
        return {
            r.split(f"/resolve/{COMMIT}/")[1]
            for r in self.requests
            if r.startswith("GET") and "/resolve/" in r
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, format: str, *args: object) -> None: ...

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
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
        if repo in REJECTED:
            status, code = REJECTED[repo]
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
            info = {
                "id": repo, "modelId": repo, "sha": COMMIT, "tags": [], "private": False,
                "siblings": [{"rfilename": name} for name in files],
            }  # fmt: skip
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


# huggingface_hub reads its variables on import, so every test resolves names in a subprocess.
_SCRIPT = """
import json, sys
from albert.errors import AlbertError
from albert.pretrained.hub import resolve_source
results = []
for argument in sys.argv[1:]:
    name, _, revision = argument.partition("@")
    try:
        results.append(str(resolve_source(name, revision=revision or None)))
    except AlbertError as error:
        results.append(f"{type(error).__name__}: {error}")
print(json.dumps(results))
"""


def resolve(*names: str, url: str, home: Path, is_offline: bool = False) -> list[str]:
    """The path or the error of each name, or name@revision, in a subprocess."""
    env = {
        k: v for k, v in os.environ.items() if not k.startswith("HF_") and not k.lower().endswith("_proxy")
    }
    env |= {"HF_ENDPOINT": url, "HF_HOME": str(home), "HF_HUB_OFFLINE": str(int(is_offline))}
    command = [sys.executable, "-c", _SCRIPT, *names]
    done = subprocess.run(command, env=env, cwd=home, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert all("\n" not in result for result in results)
    return [str(result) for result in results]


def test_only_necessary_files_are_fetched_and_then_no_hub_is_needed(hub: Hub, tmp_path: Path) -> None:
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
    # Without HF_HUB_OFFLINE and without a network.
    assert resolve(*names, url="http://127.0.0.1:9", home=tmp_path) == online


def test_other_names_are_rejected(hub: Hub, tmp_path: Path) -> None:
    expected = {
        "albert/albert-bse-v2": ("InputError", "albert/albert-base-v2?"),
        "nanno": ("InputError", "not a local folder or released model (did you mean nano?)"),
        "nobody/nothing": ("InputError",),
        "albert/gated": ("hf auth login",),
        "albert/private": ("log in",),
        "albert/broken": ("500",),
        "albert/weightless": ("FileFormatError", "model.safetensors", "pytorch_model.bin"),
        "a name with spaces": (),
    }
    for (name, values), error in zip(
        expected.items(), resolve(*expected, url=hub.url, home=tmp_path), strict=True
    ):
        assert not [value for value in (f"'{name}'", *values) if value not in error], error


def test_a_misspelled_local_folder_is_suggested(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "mood").mkdir()
    for is_offline in (False, True):
        (error,) = resolve("moood", url=hub.url, home=tmp_path, is_offline=is_offline)
        assert "(did you mean mood?)" in error


def test_a_revision_is_used_or_rejected(hub: Hub, tmp_path: Path) -> None:
    found, rejected = resolve(f"flat-name@{COMMIT}", "albert/both@v9", url=hub.url, home=tmp_path)
    assert found.endswith(COMMIT)
    assert "GET api/models/flat-name/revision/main" not in hub.requests
    assert rejected.startswith("InputError: 'albert/both' ")
    assert "'v9'" in rejected


def test_offline_a_model_needs_its_weights_in_the_cache(hub: Hub, tmp_path: Path) -> None:
    def resolve_offline() -> str:
        return resolve("albert/both", url=hub.url, home=tmp_path, is_offline=True)[0]

    error = resolve_offline()
    assert error.startswith("InputError: 'albert/both' ")
    assert "HF_HUB_OFFLINE=1" in error
    assert hub.requests == []
    (error,) = resolve("albert/both", url="http://127.0.0.1:9", home=tmp_path)
    assert error.startswith("InputError: 'albert/both' ")
    (folder,) = resolve("albert/both", url=hub.url, home=tmp_path)
    (Path(folder) / "README.md").unlink()
    assert resolve_offline() == folder
    (Path(folder) / "model.safetensors").unlink()
    assert "Error: 'albert/both' " in resolve_offline()


def test_a_local_path_wins_over_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "albert" / "albert-base-v2").mkdir(parents=True)
    weights = tmp_path / "model.safetensors"
    weights.touch()

    assert resolve_source("albert/albert-base-v2").samefile(tmp_path / "albert" / "albert-base-v2")
    assert resolve_source("~/albert") == tmp_path / "albert"
    assert resolve_source(weights) == weights
    with rejects(InputError, "'albert'", "'v2'"):
        resolve_source("albert", revision="v2")


@pytest.mark.parametrize(
    "path",
    ["./run", "../run", "/nowhere/run", "~/run", "run/", "a/b/c", "run.safetensors", "run.bin", Path("run")],
)
def test_a_missing_path_is_not_requested_from_the_hub(
    path: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with rejects(FileFormatError, Path(path).name):
        resolve_source(path)


def test_the_hub_library_is_imported_on_demand() -> None:
    script = "import sys, albert.pretrained.hub; sys.exit('huggingface_hub' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 0


@pytest.mark.parametrize("path", ["typo/", "./typo", "vcab/spiece.model", "vocab.txt"])
def test_a_missing_vocabulary_is_not_requested_from_the_hub(path: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hub_names, "_fetch", lambda *_: pytest.fail("a request to the hub"))
    with rejects(FileFormatError, Path(path).name):
        find_vocabulary_path(path)


def test_the_vocabulary_of_a_tensorflow_checkpoint_is_found(tmp_path: Path) -> None:
    source = Path(__file__).parents[1] / "data" / "tensorflow_albert"
    folder = Path(shutil.copytree(source, tmp_path / "albert"))
    (folder / "30k-clean.model").write_bytes(b"a model of SentencePiece")
    assert find_vocabulary_path(str(folder)) == folder / "30k-clean.model"
