"""A tiny model for the tests of the experiments' building blocks, made once."""

import os

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """The folder of an untrained tiny model that knows FrozenLake's words."""
    pytest.importorskip("trl")
    from vagen_adapters.parity import tiny_model

    folder = tmp_path_factory.mktemp("tiny")
    options = {"strategy": "no_think", "max_turns": 2, "prompt_pack": tiny_model.PROMPTS}
    texts = tiny_model.texts_of(["vagen/FrozenLake-v0"], levels=5, **options)
    tiny_model.save_tiny(folder, texts, vocabulary=320, hidden=64, layers=2, vision_layers=1)
    return str(folder)
