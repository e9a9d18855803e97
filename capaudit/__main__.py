"""``python -m capaudit``: the same as the ``capaudit`` command."""

import sys

from capaudit.cli.start import main

if __name__ == "__main__":
    sys.exit(main())
