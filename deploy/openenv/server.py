"""The application that the container serves: `VAGEN_ENV_ID` with `VAGEN_OPTIONS`, a JSON object."""

from __future__ import annotations

import json
import os

from vagen_adapters.openenv_env import create_app

app = create_app(
    os.environ.get("VAGEN_ENV_ID", "vagen/Sokoban-v0"),
    **json.loads(os.environ.get("VAGEN_OPTIONS", "{}")),
)


def main(host: str = "0.0.0.0", port: int = 8000) -> None:  # noqa: S104 - in a container all addresses are its own
    """Serve it."""
    import uvicorn

    uvicorn.run(app, host=host, port=port)


if __name__ == "__main__":
    main()
