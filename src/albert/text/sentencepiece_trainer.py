"""Train a SentencePiece model in a process of its own.

In this process Ctrl-C would be ignored for minutes and the log would go to the terminal. A separate process
can be stopped at once, its log gives the progress, and its memory is freed.
"""

import io
import json
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from threading import Thread
from typing import IO, Any

from albert.errors import AlbertError, one_line
from albert.fresh_process import build_command

_FAILED = "failed: "


class TrainerError(AlbertError):
    """What SentencePiece said when it gave up, or that it was stopped."""


def run_trainer(
    sentences: list[bytes], *, options: Mapping[str, Any], on_log: Callable[[str], None] = lambda line: None
) -> bytes:
    """Train with SentencePiece's options on the sentences, which are used up on the way to save memory."""
    command = [*build_command(__name__), json.dumps(options)]
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile() as model:
        child = subprocess.Popen(command, stdin=pipe, stdout=model, stderr=pipe)
        assert child.stdin is not None
        assert child.stderr is not None
        feeder = Thread(target=_feed, args=(child.stdin, sentences), daemon=True)
        feeder.start()
        last: deque[str] = deque([""], maxlen=20)
        try:
            for line in io.TextIOWrapper(child.stderr, encoding="utf-8", errors="replace"):
                last.append(line.rstrip())
                on_log(last[-1])
            child.wait()
        finally:
            child.kill()  # Ctrl-C came, or an error: nobody waits for it any more
            child.wait()
            feeder.join()
        if child.returncode:
            raise TrainerError(_explain(child.returncode, list(last)))
        model.seek(0)
        return model.read()


def _feed(pipe: IO[bytes], sentences: list[bytes]) -> None:
    sentences.reverse()
    try:
        with pipe:
            while sentences:
                pipe.write(sentences.pop() + b"\n")
    except BrokenPipeError:
        pass  # it gave up, and its log says why


def _explain(code: int, lines: list[str]) -> str:
    if code < 0:
        return f"SentencePiece was stopped by signal {-code}, as when memory runs out; take a smaller sample"
    reasons = [line.removeprefix(_FAILED) for line in lines if line.startswith(_FAILED)]
    return f"SentencePiece cannot train on this corpus: {reasons[-1] if reasons else lines[-1]}"


def main() -> None:
    """The process itself: options in the first argument, sentences on stdin, the model on stdout."""
    from sentencepiece import SentencePieceTrainer

    writer = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=_iter_lines(), model_writer=writer, **json.loads(sys.argv[1])
        )
    except (RuntimeError, OSError, MemoryError) as error:
        print(_FAILED + one_line(error), file=sys.stderr, flush=True)
        sys.exit(1)
    sys.stdout.buffer.write(writer.getvalue())


def _iter_lines() -> Iterator[bytes]:
    for line in sys.stdin.buffer:
        yield line.rstrip(b"\n")
