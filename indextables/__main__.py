"""`python -m indextables` is the `indextables` command."""

import sys

from indextables.cli import main

sys.exit(main())
