"""The ordering replay contract: which joint and body order a policy was trained against, and how to get it back.

A checkpoint replays against positions: a permuted axis raises no error, the robot just falls. A record,
written once per run, keeps the names, and ``from_checkpoint`` carries them to whatever backend is live.

Pure Python: importing this loads no framework, no numerics and no YAML library. ``capaudit explain
ordering`` is the guide.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from capaudit.ordering.adapters import entries_of, make_entry
    from capaudit.ordering.derived import from_io_descriptors, from_onnx, from_run_config, from_run_folder
    from capaudit.ordering.errors import (
        BadNameError,
        ConflictError,
        CorruptRecordError,
        DigestMismatchError,
        DuplicateKeyError,
        InvalidYamlError,
        LeappConflictError,
        LeappIncompleteError,
        LeappVersionError,
        LiveNamesError,
        MissingEntryError,
        NoRecordError,
        NotAPermutationError,
        NotLeappError,
        OrderingError,
        OrderingUsageError,
        RemoteError,
        SchemaError,
        WriteConflictError,
    )
    from capaudit.ordering.injection import inject
    from capaudit.ordering.leapp import load_leapp
    from capaudit.ordering.locating import load_source
    from capaudit.ordering.mapping import AxisOrdering, axis_ordering
    from capaudit.ordering.names import match_spellings
    from capaudit.ordering.reading import load_record, parse_record
    from capaudit.ordering.record import Entry, Record
    from capaudit.ordering.recorder import install_recorder, record_entries
    from capaudit.ordering.remote import fetch_record
    from capaudit.ordering.resolving import Resolution, from_checkpoint, is_from_checkpoint, resolve_configured
    from capaudit.ordering.sources import Orders, Source
    from capaudit.ordering.verifying import compare_entries, compare_sources
    from capaudit.ordering.writing import dump_record, write_record

# Read from their modules when first asked for: a training script that only records pays for recording alone.
_HOME = {
    "adapters": ("entries_of", "make_entry"),
    "derived": ("from_io_descriptors", "from_onnx", "from_run_config", "from_run_folder"),
    "errors": (
        "BadNameError",
        "ConflictError",
        "CorruptRecordError",
        "DigestMismatchError",
        "DuplicateKeyError",
        "InvalidYamlError",
        "LeappConflictError",
        "LeappIncompleteError",
        "LeappVersionError",
        "LiveNamesError",
        "MissingEntryError",
        "NoRecordError",
        "NotAPermutationError",
        "NotLeappError",
        "OrderingError",
        "OrderingUsageError",
        "RemoteError",
        "SchemaError",
        "WriteConflictError",
    ),
    "injection": ("inject",),
    "leapp": ("load_leapp",),
    "locating": ("load_source",),
    "mapping": ("AxisOrdering", "axis_ordering"),
    "names": ("match_spellings",),
    "reading": ("load_record", "parse_record"),
    "record": ("Entry", "Record"),
    "recorder": ("install_recorder", "record_entries"),
    "remote": ("fetch_record",),
    "resolving": ("Resolution", "from_checkpoint", "is_from_checkpoint", "resolve_configured"),
    "sources": ("Orders", "Source"),
    "verifying": ("compare_entries", "compare_sources"),
    "writing": ("dump_record", "write_record"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "AxisOrdering",
    "BadNameError",
    "ConflictError",
    "CorruptRecordError",
    "DigestMismatchError",
    "DuplicateKeyError",
    "Entry",
    "InvalidYamlError",
    "LeappConflictError",
    "LeappIncompleteError",
    "LeappVersionError",
    "LiveNamesError",
    "MissingEntryError",
    "NoRecordError",
    "NotAPermutationError",
    "NotLeappError",
    "OrderingError",
    "OrderingUsageError",
    "Orders",
    "Record",
    "RemoteError",
    "Resolution",
    "SchemaError",
    "Source",
    "WriteConflictError",
    "axis_ordering",
    "compare_entries",
    "compare_sources",
    "dump_record",
    "entries_of",
    "fetch_record",
    "from_checkpoint",
    "from_io_descriptors",
    "from_onnx",
    "from_run_config",
    "from_run_folder",
    "inject",
    "install_recorder",
    "is_from_checkpoint",
    "load_leapp",
    "load_record",
    "load_source",
    "make_entry",
    "match_spellings",
    "parse_record",
    "record_entries",
    "resolve_configured",
    "write_record",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
