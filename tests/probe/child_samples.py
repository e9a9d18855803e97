"""A child that does what its payload names: the ways in which a probe's process can end."""

import os
import signal
import subprocess
import sys
import time

from capaudit.evidence import JsonObject
from capaudit.probe.child import Channel, serve


class OutOfMemoryError(RuntimeError):
    """Stands in for torch's class of that name."""


def handle(payload: JsonObject, channel: Channel) -> JsonObject:
    channel.partial({"step": 1})
    match payload["do"]:
        case "raise":
            try:
                raise ValueError("the first error")
            except ValueError:
                raise RuntimeError("the later error")  # noqa: B904 -- the implicit chain is what is tested
        case "hang":
            print("about to hang", file=sys.stderr, flush=True)
            time.sleep(600)
        case "be killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "memory":
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        case "exit":
            os._exit(7)
        case "cut line":
            os.write(channel._descriptor, b'{"partial": {"step"')
            os._exit(0)
        case "orphan":
            sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            return {"sleeper": sleeper.pid}
        case "print":
            print("target output")
            return {"echo": payload["value"]}
    return {"echo": payload.get("value")}


if __name__ == "__main__":
    serve(handle)
