"""PyTorch's own operator database as programs: the first samples of every operator."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import sys
import types
import unittest
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch

from capaudit.evidence import JsonObject

_DTYPES = (
    torch.float32,
    torch.int64,
    torch.bool,
    torch.complex64,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.float8_e4m3fn,
)

_DATABASE = "torch.testing._internal.common_methods_invocations"
_UNINITIALISED = ("empty", "new_empty", "_empty", "resize_", "resize_as_")


class UnsupportedError(Exception):
    """The operator has no sample for this device; its message says why."""


def operators() -> tuple[Any, ...]:
    """Import the operator database without touching CUDA, so that the process may still be forked.

    The database asks at import for the device's features, to list half-precision types; and, through
    numba, for its driver. Both answers only widen lists that samples in single precision do not need.
    """
    with _stand_ins(), mock.patch("torch.cuda.is_available", return_value=False):
        database = importlib.import_module(_DATABASE)
    return tuple(database.op_db)


@contextmanager
def _stand_ins() -> Iterator[None]:
    """Hide numba, and stand in for ``expecttest`` where it is missing: it serves PyTorch's own tests alone."""
    stand_ins: dict[str, Any] = {"numba": None}
    if importlib.util.find_spec("expecttest") is None:
        expecttest: Any = types.ModuleType("expecttest")
        expecttest.TestCase, expecttest.ACCEPT = unittest.TestCase, False
        stand_ins["expecttest"] = expecttest
    placed = {name: module for name, module in stand_ins.items() if name not in sys.modules}
    modules: dict[str, Any] = sys.modules
    modules.update(placed)
    try:
        yield
    finally:
        for name in placed:
            del modules[name]


def identifier(operator: Any) -> str:
    """``name`` or ``name.variant``."""
    return f"{operator.name}.{operator.variant_test_name}" if operator.variant_test_name else str(operator.name)


def to_entries(found: Sequence[Any]) -> list[JsonObject]:
    """One entry per operator. Equal identifiers would make one record of two operators, so they are numbered."""
    entries: list[JsonObject] = []
    used: dict[str, int] = {}
    for index, operator in enumerate(found):
        name = identifier(operator)
        used[name] = used.get(name, 0) + 1
        unique = name if used[name] == 1 else f"{name}#{used[name]}"
        entries.append({"id": unique, "operator": index, "subject": str(operator.name), "first": 0})
    return entries


def programs(operator: Any, first: int, count: int, device: str) -> Iterator[tuple[int, SampleProgram]]:
    """Yield (index, program) of the samples from ``first`` on. Raises UnsupportedError where there is none.

    Samples without an empty tensor go first: operators return early for those, and that proves nothing.
    """
    supported = operator.supported_dtypes(device)
    dtype = next((kind for kind in _DTYPES if kind in supported), None)
    if dtype is None:
        raise UnsupportedError(f"no element type that the probe samples is supported on {device}")
    torch.manual_seed(20)
    try:
        samples = list(itertools.islice(operator.sample_inputs(device, dtype, requires_grad=False), 4 * count))
    except Exception as error:
        raise UnsupportedError(f"no sample could be made: {type(error).__name__}: {str(error)[:200]}") from error
    if not samples:
        raise UnsupportedError("the database has no sample")
    samples.sort(key=_has_empty_tensor)
    for index in range(first, min(len(samples), count)):
        yield index, SampleProgram(operator, samples[index], dtype)


class SampleProgram:
    """One operator applied to one sample."""

    host_decides = False

    def __init__(self, operator: Any, sample: Any, dtype: torch.dtype) -> None:
        self._operator = operator
        if hasattr(operator.op, "is_cuda_available"):
            # Functions compiled at run time noted when the database was imported that there was no device.
            operator.op.is_cuda_available = torch.cuda.is_available()
        self._sample = sample
        self.namespace: dict[str, Any] = {"input": sample.input, "args": list(sample.args), "kwargs": sample.kwargs}
        self.comparable = not str(operator.name).startswith(_UNINITIALISED)
        self.description = f"{str(dtype).removeprefix('torch.')}: {_describe(sample)}"

    def step(self) -> object:
        return self._operator(self._sample.input, *self._sample.args, **self._sample.kwargs)

    def mutate(self) -> None:
        """Reverse the elements of every floating tensor in place.

        That keeps each operator's domain: the same values, symmetric matrices stay symmetric and positive
        ones positive. Integer tensors hold indices, offsets and sizes, which often may not be reordered.
        """
        with torch.no_grad():
            for tensor in _tensors(self.namespace):
                if tensor.is_floating_point() or tensor.is_complex():
                    # Eight-bit floats are moved as bytes: few operators know them.
                    plain = tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor
                    plain.copy_(plain.flatten().flip(0).reshape(plain.shape))

    def registered(self) -> Sequence[torch.Generator]:
        found = (value for value in self._sample.kwargs.values() if isinstance(value, torch.Generator))
        return tuple(generator for generator in found if generator.device.type == "cuda")


@contextmanager
def without_reseeding() -> Iterator[None]:
    """Let samples of random operators draw from the running generator.

    The database wraps them in a helper that saves the generator, seeds it and puts it back. A capture
    allows none of that, and the operator is not to blame.
    """

    def call(operator: Callable[..., object], *args: object, **kwargs: object) -> object:
        return operator(*args, **kwargs)

    with mock.patch(f"{_DATABASE}.wrapper_set_seed", call):
        yield


def _tensors(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        if value.layout == torch.strided and not value.is_nested:
            yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _has_empty_tensor(sample: Any) -> bool:
    return any(tensor.numel() == 0 for tensor in _tensors([sample.input, sample.args, sample.kwargs]))


def _describe(sample: Any) -> str:
    parts = [_short(sample.input), *map(_short, sample.args)]
    parts += [f"{name}={_short(value)}" for name, value in sample.kwargs.items()]
    return ", ".join(parts)[:160]


def _short(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"tensor{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_short, value))}]"
    return str(value)
