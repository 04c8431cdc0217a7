"""OpenEnv's server of MyEnv."""

from __future__ import annotations

from vagen_adapters.openenv_env import create_app

app = create_app("my_env:example/MyEnv-v0")


def main(host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serve it."""
    import uvicorn

    uvicorn.run(app, host=host, port=port)


if __name__ == "__main__":
    main()
