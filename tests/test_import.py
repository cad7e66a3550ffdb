"""`import albert`, and every public name of it, changes nothing in the process."""

import json
import subprocess
import sys

PROGRAM = """
import json, os, signal, sys, threading, warnings
import numpy, pyarrow, pydantic, scipy.stats, sentencepiece, tokenizers, torch.utils.data, yaml  # not ours
registered = []
register = os.register_at_fork
os.register_at_fork = lambda **words: registered.append(sorted(words)) or register(**words)

def describe():
    return {
        "imports": [repr(sys.meta_path), len(sys.path_hooks), list(sys.path)],
        "signal handlers": {str(number): repr(signal.getsignal(number)) for number in signal.valid_signals()},
        "environment": [dict(os.environ), os.getcwd()],
        "warning filters": [repr(found) for found in warnings.filters],
        "hooks": [len(registered), repr(sys.excepthook), repr(threading.excepthook)],
        "torch": [str(torch.get_default_dtype()), torch.get_num_threads(), threading.active_count()],
    }

states = [describe()]
import albert
states.append(describe())
for name in albert.__all__:
    getattr(albert, name)
states.append(describe())
print(json.dumps(states))
"""


def test_importing_albert_changes_nothing_in_the_process():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    before, imported, used = json.loads(done.stdout.splitlines()[-1])
    assert imported == before
    assert used == before
