"""The parity kit's model, made once."""

import pytest


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The parity kit's model."""
    from vagen_adapters.parity import ReferenceModel

    return ReferenceModel(tmp_path_factory.mktemp("reference") / "tiny")


@pytest.fixture(scope="module")
def loaded(tiny_folder):
    """The tiny policy and its encoder."""
    from vagen_adapters.ppo.chat_encoder import load_policy

    return load_policy(tiny_folder)
