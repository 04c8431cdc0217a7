"""A tiny model for the tests of the trainer, and the parity kit's, made once."""

import os

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")

SHORT = {"strategy": "no_think", "max_turns": 2}
"""Options under which FrozenLake's replies and episodes are shortest."""


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """The folder of an untrained tiny model that knows FrozenLake's words."""
    pytest.importorskip("trl")
    from vagen_adapters.parity import tiny_model as tiny

    folder = tmp_path_factory.mktemp("tiny")
    texts = tiny.texts_of(["vagen/FrozenLake-v0"], levels=5, prompt_pack=tiny.PROMPTS, **SHORT)
    tiny.save_tiny(folder, texts, vocabulary=320, hidden=64, layers=2, vision_layers=1)
    return str(folder)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The parity kit's model."""
    from vagen_adapters.parity import ReferenceModel

    return ReferenceModel(tmp_path_factory.mktemp("reference") / "tiny")
