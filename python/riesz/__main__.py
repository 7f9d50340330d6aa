"""``python -m riesz`` is the ``riesz`` command."""

import sys

from riesz._command import main

sys.exit(main())
