"""Stands in for the viewers and loggers that mjlab imports and stepping does not need.

A child process finds this module first on its path, so only tests and throw-away runs ever see it.
"""

import importlib.abc
import importlib.machinery
import sys
import types

ABSENT = frozenset(
    [
        "imageio",
        "imageio_ffmpeg",
        "mediapy",
        "mjviser",
        "onnx",
        "onnxscript",
        "rsl_rl",
        "tensorboard",
        "torchrunx",
        "tqdm",
        "viser",
        "wandb",
    ]
)


def _stand_in(name: str) -> type:
    return type(
        name,
        (),
        {
            "__init__": lambda self, *args, **kwargs: None,
            "__call__": lambda self, *args, **kwargs: args[0] if args else None,
            "__class_getitem__": classmethod(lambda cls, item: cls),
        },
    )


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ABSENT:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__path__ = []

        def find(name: str) -> type:
            if name.startswith("__"):
                raise AttributeError(name)
            return _stand_in(name)

        module.__getattr__ = find
        return module

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, _Finder())
