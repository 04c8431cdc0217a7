"""A model in this process, loaded from a folder in the layout that real weights have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from runs import episodes, play  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from vagen_benchmarks.agents.factory import Asked, make_agents  # noqa: E402
from vagen_benchmarks.cli import app  # noqa: E402
from vagen_benchmarks.errors import ProtocolError  # noqa: E402
from vagen_benchmarks.runs.run_folder import RunFolder  # noqa: E402
from vagen_benchmarks.sharing.verify import verify  # noqa: E402


def test_folder_without_a_model_is_one_clear_error(tmp_path):
    with pytest.raises(ProtocolError, match="holds no vision-language model"):
        make_agents([f"transformers:{tmp_path}"], Asked())


@pytest.mark.parametrize(
    "name", ["runs/misspelt", "misspelt", "./misspelt", "a/b/c", "Qwen/Qwen-None"]
)
def test_folder_that_is_not_there_asks_no_hub(monkeypatch, name):
    """Not even where the hub can be reached: nothing is connected to."""

    def connected(*_):
        raise AssertionError("the network was used")

    monkeypatch.setattr("socket.socket.connect", connected)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with pytest.raises(ProtocolError, match=r"there is no folder '.*hf download"):
        make_agents([f"transformers:{name}"], Asked())


@pytest.mark.parametrize(
    "content",
    [
        "'user: ' + m['content']",
        "m['content'] | trim",
        "m['content'][-1]['text']",
        "raise_exception('strings only') if m['content'] is not string else m['content']",
    ],
)
def test_template_of_a_text_model_is_said_with_its_fix(tmp_path, content):
    """Also where it takes the parts of a message, and leaves out the picture or writes Python's list."""
    import families

    folder = Path(families.save("llava", tmp_path / "strings"))
    text = f"{{% for m in messages %}}{{{{ {content} }}}}{{% endfor %}}"
    for file in folder.glob("chat_template*"):
        file.unlink()
    (folder / "chat_template.jinja").write_text(text)
    with pytest.raises(ProtocolError, match="takes no messages of text and pictures"):
        make_agents([f"transformers:{folder}"], Asked())


MAIN = "<think>The box is above me.</think><answer>{}</answer>"


def test_a_checkpoint_of_vagens_main_branch_is_asked_in_its_format(tmp_path, monkeypatch):
    """A Qwen2.5-VL of random weights, as those checkpoints are saved; the texts it would write are put in its mouth."""
    import families
    from transformers.models.qwen2_5_vl.processing_qwen2_5_vl import Qwen2_5_VLProcessor

    folder = families.save("qwen2_5_vl", tmp_path / "checkpoint")
    asked = Asked(sampling={"max_tokens": 8}, profile="vagen-main")
    (agent,) = make_agents([f"transformers:{folder}"], asked)
    play(tmp_path / "own", [agent], episodes=1)
    assert [call["completion_tokens"] for call in episodes(tmp_path / "own")[0].calls]
    prompts = []
    template = Qwen2_5_VLProcessor.apply_chat_template

    def watched(self, messages, **options):
        prompts.append(messages)
        return template(self, messages, **options)

    monkeypatch.setattr(Qwen2_5_VLProcessor, "apply_chat_template", watched)
    for written, executed in (
        ("Up,Left", ["Up", "Left"]),
        ("Down", ["Down"]),
        ("up, right", ["Up", "Right"]),
    ):
        monkeypatch.setattr(
            Qwen2_5_VLProcessor, "decode", lambda *_, w=written, **__: MAIN.format(w)
        )
        (agent,) = make_agents([f"transformers:{folder}"], asked)
        play(tmp_path / written, [agent], episodes=1)
        turn = episodes(tmp_path / written)[0].turns[0]
        assert turn["parsed"]["well_formed"]
        assert [action["text"].title() for action in turn["executed"]] == executed
    system = str(prompts[-1][0]["content"])
    assert "<think>...</think><answer>...</answer>" in system
    assert "<observation>" not in system


def test_one_command_plays_a_released_folder_and_its_run_verifies(tmp_path):
    """Weights in shards, names as transformers 4 wrote them, slow-processor files: what VAGEN and ViSkill released."""
    import families
    from safetensors.torch import load_file, save_file

    folder = Path(families.save("qwen2_5_vl", tmp_path / "checkpoint"))
    weights = load_file(folder / "model.safetensors")
    assert any(name.startswith("visual.") for name in weights)
    (folder / "model.safetensors").unlink()
    shards = {}
    for number, names in enumerate((sorted(weights)[::2], sorted(weights)[1::2]), 1):
        shard = f"model-{number:05}-of-00002.safetensors"
        save_file({name: weights[name] for name in names}, folder / shard, {"format": "pt"})
        shards |= dict.fromkeys(names, shard)
    index = {"metadata": {}, "weight_map": shards}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    protocol = tmp_path / "short.toml"
    protocol.write_text(
        "[sampling]\nmax_tokens = 8\n[options]\nmax_turns = 2\n"
        '[[columns]]\nname = "Sokoban"\nenv = "sokoban"\nepisodes = 1\n'
    )
    words = ["bench", "-p", protocol, "-a", f"transformers:{folder}", "--profile", "vagen-main"]
    shown = CliRunner().invoke(app, [*map(str, words), "--out", str(tmp_path / "run")])
    assert shown.exit_code == 0, shown.output
    assert [turn["reply"] for turn in episodes(tmp_path / "run")[0].turns]
    assert verify(RunFolder(tmp_path / "run")).ok
