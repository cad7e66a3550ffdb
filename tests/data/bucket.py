"""A small object store: a server for all processes of this machine, and its file system for fsspec.

Like S3 it has only complete objects under keys: no folders, no rename, no append, no lock. Its objects can
also be read over plain HTTP.
"""

import json
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem


class Bucket(ThreadingHTTPServer):
    """The objects by key, how often each was read, and the keys in the order they were written."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Answer)
        self.objects: dict[str, bytes] = {}
        self.num_gets: Counter[str] = Counter()
        self.puts: list[str] = []

    @property
    def url(self) -> str:
        return f"bucket://127.0.0.1:{self.server_port}"

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def read_tree(self, folder: str) -> dict[str, bytes]:
        prefix = folder.rstrip("/") + "/"
        return {
            key.removeprefix(prefix): data for key, data in self.objects.items() if key.startswith(prefix)
        }


class _Answer(BaseHTTPRequestHandler):
    server: Bucket
    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self._send(has_body=False)

    def do_GET(self):
        address = urlsplit(self.path)
        if address.query == "list":
            sizes = {key: len(data) for key, data in list(self.server.objects.items())}
            self._answer(200, json.dumps(sizes).encode())
        else:
            self.server.num_gets[unquote(address.path).strip("/")] += 1
            self._send(has_body=True)

    def do_PUT(self):
        key = unquote(self.path).strip("/")
        self.server.objects[key] = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.puts.append(key)
        self._answer(200)

    def do_DELETE(self):
        self.server.objects.pop(unquote(self.path).strip("/"), None)
        self._answer(200)

    def _send(self, *, has_body: bool):
        data = self.server.objects.get(unquote(urlsplit(self.path).path).strip("/"))
        if data is None:
            self._answer(404)
            return
        ranged = self.headers.get("Range", "").removeprefix("bytes=")
        headers = {"ETag": f'"{hash(data)}"', "Accept-Ranges": "bytes"}
        if not ranged:
            self._answer(200, data, headers, has_body=has_body)
            return
        first, _, last = ranged.partition("-")
        start, end = int(first), min(int(last or len(data)), len(data) - 1)
        headers["Content-Range"] = f"bytes {start}-{end}/{len(data)}"
        self._answer(206, data[start : end + 1], headers, has_body=has_body)

    def _answer(self, status: int, data: bytes = b"", headers=None, *, has_body: bool = True):
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if has_body:
            self.wfile.write(data)

    def log_message(self, *_):
        pass


class BucketFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """bucket://HOST:PORT/folder/name."""

    protocol = "bucket"
    cachable = False

    @classmethod
    def _strip_protocol(cls, path):
        return str(path).removeprefix("bucket://").strip("/")

    def _request(self, method, path, data=None, headers=None):
        host, _, key = path.partition("/")
        url = f"http://{host}/{quote(key)}"
        request = urllib.request.Request(url, data=data, method=method, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            raise FileNotFoundError(path) from error

    def ls(self, path, detail=True, **_):
        path = self._strip_protocol(path)
        host = path.partition("/")[0]
        with urllib.request.urlopen(f"http://{host}/?list", timeout=30) as answer:
            sizes = {f"{host}/{key}": size for key, size in json.loads(answer.read()).items()}
        if path in sizes:
            found = {path: {"name": path, "size": sizes[path], "type": "file"}}
        else:
            found = {}
            prefix = f"{path}/" if path else ""
            for key, size in sizes.items():
                if key.startswith(prefix):
                    name, slash, _rest = key.removeprefix(prefix).partition("/")
                    kind = "directory" if slash else "file"
                    found[prefix + name] = {"name": prefix + name, "size": 0 if slash else size, "type": kind}
            if not found:
                raise FileNotFoundError(path)
        return list(found.values()) if detail else list(found)

    def _open(self, path, mode="rb", **options):
        return _BucketFile(self, path, mode, size=None if "r" not in mode else self.info(path)["size"])

    def put_file(self, lpath, rpath, **_):
        self._request("PUT", self._strip_protocol(rpath), Path(lpath).read_bytes())

    def get_file(self, rpath, lpath, **_):
        Path(lpath).write_bytes(self._request("GET", self._strip_protocol(rpath)))

    def rm_file(self, path):
        self._request("DELETE", self._strip_protocol(path))


class _BucketFile(AbstractBufferedFile):  # type: ignore[misc]
    def _fetch_range(self, start, end):
        return self.fs._request("GET", self.path, headers={"Range": f"bytes={start}-{end - 1}"})


@contextmanager
def serving() -> Iterator[Bucket]:
    """A bucket that runs until the block ends."""
    with Bucket() as bucket:
        threading.Thread(target=bucket.serve_forever, daemon=True).start()
        try:
            yield bucket
        finally:
            bucket.shutdown()


def write_plugin(folder: Path) -> Path:
    """A folder that registers bucket:// with fsspec in every process that has it on its path, like s3fs."""
    info = folder / "bucket_fs-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bucket-fs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[fsspec.specs]\nbucket = tests.data.bucket:BucketFileSystem\n")
    return folder
