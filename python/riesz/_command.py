"""The ``riesz`` command."""

import signal
import sys

from riesz import _riesz


def main() -> int:
    """Run the command line this process was started with and return its exit code."""
    # Python's own handler would only take note of Ctrl-C until the command has finished.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _riesz.main(sys.argv)
