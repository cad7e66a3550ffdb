"""A file system for fsspec that every process of this machine can use: files on the disk as objects."""

import os
from pathlib import Path

from fsspec.implementations.local import LocalFileSystem


class BucketFileSystem(LocalFileSystem):  # type: ignore[misc]
    """bucket:///folder/name: like S3, without rename and append. $BUCKET_LOG lists what was fetched."""

    protocol = "bucket"
    cachable = False

    def __init__(self, **options):
        super().__init__(**{**options, "auto_mkdir": True})

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(str(path).removeprefix("bucket://"))

    def _open(self, path, mode="rb", **options):
        assert mode == "rb"
        return super()._open(path, mode, **options)

    def get_file(self, path1, path2, **options):
        if log := os.environ.get("BUCKET_LOG"):
            with open(log, "a") as file:
                file.write(f"{path1}\n")
        super().get_file(path1, path2, **options)

    def mv(self, *_, **__):
        raise NotImplementedError


def write_plugin(folder: Path) -> Path:
    """A folder that registers bucket:// with fsspec in every process that has it on its path, like s3fs."""
    info = folder / "bucket_fs-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bucket-fs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[fsspec.specs]\nbucket = tests.data.bucket:BucketFileSystem\n")
    return folder
