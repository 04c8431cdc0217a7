"""A worker's `EnvHost` under watch: JSON lines `[env_id, options]` in, `[code, message, events]` out.

`python watched_host.py`: events are the files that are opened or looked for, the modules imported, the sockets
connected and the programs started while the client's options were judged. Tests run it in a process of its own,
because an audit hook stays for good.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys

from vagen_adapters.permission import permitted
from vagen_adapters.service.host import EnvHost, HostAnswer, HostCall

WATCHED = (
    "open",
    "import",
    "socket.",
    "os.",
    "subprocess.",
    "exec",
    "compile",
    "ctypes.",
    "glob.",
    "pathlib.",
    "shutil.",
)

events = []
watching = False


def hook(event, arguments):
    if watching and event.startswith(WATCHED):
        events.append(f"{event} {arguments!r:.200}")


def watch(name):
    """`os.stat` and its like raise no audit events."""
    call = getattr(os, name)

    def watched(*arguments, **named):
        if watching:
            events.append(f"os.{name} {arguments!r:.200}")
        return call(*arguments, **named)

    setattr(os, name, watched)


def judged(env_id, options):
    """What `permitted` says, watched."""
    global watching
    with contextlib.suppress(Exception):
        permitted(
            env_id, {"no such option": 1}, {}
        )  # what the environment itself needs is imported by now
    events.clear()
    watching = True
    try:
        permitted(env_id, options, {})
        said = ""
    except Exception as error:
        said = type(error).__name__
    watching = False
    return said, list(events)


def main():
    sys.addaudithook(hook)
    for name in ("stat", "lstat", "access", "readlink", "listdir", "scandir"):
        watch(name)
    host = EnvHost()
    for line in sys.stdin:
        env_id, options = json.loads(line)
        said, seen = judged(env_id, options)
        if not said:
            result = host.run(
                HostCall("s", "open", {"env_id": env_id, "options": options, "offers": {}})
            )
            failure = None if isinstance(result, HostAnswer) else list(result)
            host.run(HostCall("s", "close", {}))
        else:
            failure = None
        print(json.dumps([said, seen, failure]), flush=True)


if __name__ == "__main__":
    main()
