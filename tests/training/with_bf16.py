"""`albert` where bf16 is allowed though the hardware only emulates it: slow, and the same arithmetic."""

import sys

from albert.cli.main import main
from albert.model import runtime

if __name__ == "__main__":
    runtime._has_bf16 = lambda device: True
    main(sys.argv[1:])
