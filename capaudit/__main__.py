"""``python -m capaudit``: the same as the ``capaudit`` command."""

from capaudit.cli.start import console

if __name__ == "__main__":
    console()
