"""``capaudit cache``: what the cache holds, and how to empty it."""

from __future__ import annotations

import click

from capaudit.cache import store


@click.group()
def cache() -> None:
    """Show or empty the cache that makes the next run fast.

    It holds nothing but what can be computed again. CAPAUDIT_CACHE_DIR names another folder,
    CAPAUDIT_CACHE_SIZE the most MiB that it may hold.
    """


@cache.command()
def info() -> int:
    """Print the folder, what it holds and how much it may hold."""
    entries = list(store.stored())
    click.echo(f"folder: {store.folder()}")
    click.echo(f"files:  {len(entries)}")
    click.echo(f"size:   {_size(sum(size for _, size, _ in entries))} of at most {_size(store.size_limit())}")
    return 0


@cache.command()
def clean() -> int:
    """Remove what the cache holds; other files in its folder stay."""
    files, size = store.clean()
    click.echo(f"removed {files} {'file' if files == 1 else 'files'}, {_size(size)}, from {store.folder()}")
    return 0


def _size(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
