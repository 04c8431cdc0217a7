"""V-Triune's samples as data: what is read, what is refused and how that is said."""

from __future__ import annotations

import base64
import contextlib
import io
import json

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from vagen_envs.errors import ConfigError, SampleError
from vagen_envs.sample import images as images_module
from vagen_envs.sample.generated import generated_samples
from vagen_envs.sample.images import SampleImage
from vagen_envs.sample.reading import load_sample_set, read_samples
from vagen_envs.sample.schema import Sample, sample_from_row


def png(colour=(10, 20, 30), size=(6, 4), mode="RGB", form="PNG"):
    data = io.BytesIO()
    Image.new(mode, size, colour).save(data, form)
    return data.getvalue()


def row(**changes):
    made = {
        "data_source": "mine",
        "images": [{"bytes": png(), "path": None}],
        "prompt": [{"role": "user", "content": "<image>\nHow many?"}],
        "ability": "counting",
        "reward_model": {
            "answer": "3",
            "ground_truth": "3",
            "accuracy_ratio": 1.0,
            "format_ratio": 0.0,
            "verifier": "mathverify",
            "verifier_parm": {},
        },
        "extra_info": {"id": "1"},
    }
    for name, value in changes.items():
        if name in made["reward_model"]:
            made["reward_model"][name] = value
        else:
            made[name] = value
    return made


def test_a_row_becomes_a_sample():
    sample = sample_from_row(
        row(verifier_parm='{"iou_threshold": 0.5}', ground_truth="<answer> 3 </answer>")
    )
    assert sample.question == "How many?"
    assert sample.reward_model.verifier_parm == {"iou_threshold": 0.5}
    assert sample.reward_model.truth == "3"
    assert sample.images[0].size == (6, 4)
    assert sample_from_row(sample.to_row()).to_row() == sample.to_row()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data_source": None}, ["data_source=None", "is not a string"]),
        ({"data_source": " "}, ["data_source=' '", "is empty"]),
        ({"ability": 3}, ["ability=3", "is not a string", "write it as text"]),
        ({"prompt": []}, ["prompt=[]", "no user message"]),
        ({"prompt": "How many?"}, ["prompt='How many?'", "is not a list"]),
        (
            {"prompt": [{"role": "human", "content": "x"}]},
            ["prompt[0].role='human'", "use one of system, user"],
        ),
        ({"prompt": ["How many?"]}, ["prompt[0]='How many?'", "is not a message"]),
        ({"ground_truth": ""}, ["reward_model.ground_truth=''", "leave the row out"]),
        ({"accuracy_ratio": -1.0}, ["reward_model.accuracy_ratio=-1.0", "at least 0"]),
        ({"accuracy_ratio": float("nan")}, ["reward_model.accuracy_ratio=nan", "finite"]),
        ({"accuracy_ratio": 10**400}, ["reward_model.accuracy_ratio=1000", "finite"]),
        ({"format_ratio": True}, ["reward_model.format_ratio=True", "is not a weight"]),
        ({"verifier_parm": "{"}, ["reward_model.verifier_parm='{'", "is not JSON"]),
        ({"verifier_parm": [1]}, ["reward_model.verifier_parm=[1]", "is not a dictionary"]),
        ({"extra_info": {"facts": "a"}}, ["extra_info.facts='a'", "list of strings"]),
        ({"images": {"bytes": b""}}, ["images=", "is not a list"]),
        ({"images": [b"GIF87a nonsense"]}, ["images[0]", "not a readable picture"]),
        (
            {"images": ["/nowhere/at all.png"]},
            ["images[0]='/nowhere/at all.png'", "neither an existing file nor base64"],
        ),
        ({"images": [{"bytes": None, "path": "missing.png"}]}, ["images[0]", "missing.png"]),
        (
            {"images": ["~nobody/x.png"]},
            ["images[0]='~nobody/x.png'", "neither an existing file nor base64"],
        ),
    ],
    ids=str,
)
def test_a_bad_row_is_said_with_field_value_reason_and_fix(changes, said):
    with pytest.raises(SampleError) as caught:
        sample_from_row(row(**changes), "data.parquet row 7")
    for words in ["data.parquet row 7", *said]:
        assert words in str(caught.value)


def test_other_columns_are_passed_over_unless_misspelt():
    assert sample_from_row(row(split="train", __index_level_0__=7)).data_source == "mine"
    misspelt = row()
    misspelt["image"] = misspelt.pop("images")
    with pytest.raises(SampleError, match=r"row 0: image=.*did you mean 'images'\?"):
        sample_from_row(misspelt)


def test_an_unknown_reward_field_is_said():
    bad = row()
    bad["reward_model"]["verifer"] = "x"
    with pytest.raises(SampleError, match=r"reward_model.verifer='x'.*Did you mean 'verifier'"):
        sample_from_row(bad)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(field=st.sampled_from([*row(), *row()["reward_model"]]), value=json_values)
def test_any_value_anywhere_gives_a_sample_or_that_error(field, value):
    with contextlib.suppress(SampleError):
        assert isinstance(sample_from_row(row(**{field: value})), Sample)


# -- pictures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["bytes", "dict", "path", "dict path", "base64", "data url"])
def test_pictures_come_in_every_form(form, tmp_path):
    data = png((200, 0, 0))
    (tmp_path / "a.png").write_bytes(data)
    text = base64.b64encode(data).decode()
    value = {
        "bytes": data,
        "dict": {"bytes": data, "path": "gone.png"},
        "path": "a.png",
        "dict path": {"bytes": None, "path": str(tmp_path / "a.png")},
        "base64": text,
        "data url": f"data:image/png;base64,{text}",
    }[form]
    image = SampleImage.read(value, "here", tmp_path)
    assert image.encoded == data
    assert image.size == (6, 4)
    assert (image.pixels == (200, 0, 0)).all()


@pytest.mark.parametrize("form", ["JPEG", "WEBP", "GIF", "BMP"])
def test_formats(form):
    assert SampleImage.read(png((255, 255, 255), form=form), "here").pixels.shape == (4, 6, 3)


def test_what_is_transparent_is_white():
    assert (SampleImage.read(png((9, 9, 9, 0), mode="RGBA"), "here").pixels == 255).all()


def test_a_picture_that_breaks_off_is_said_when_it_is_looked_at():
    whole = io.BytesIO()
    noise = np.random.default_rng(1).integers(0, 256, (50, 50, 3), np.uint8)
    Image.fromarray(noise).save(whole, "PNG")
    image = SampleImage.read(whole.getvalue()[:2000], "row 3: images[0]")
    with pytest.raises(SampleError, match=r"row 3: images\[0\].*not a readable picture"):
        _ = image.pixels


def test_huge_pictures_are_refused_by_their_header(monkeypatch):
    monkeypatch.setattr(images_module, "MOST_PIXELS", 20)
    with pytest.raises(SampleError, match="6 × 4 pixels, more than the 20"):
        SampleImage.read(png(), "here")


def test_a_file_that_has_gone_is_said(tmp_path):
    (tmp_path / "a.png").write_bytes(png())
    image = SampleImage.read("a.png", "row 3", tmp_path)
    (tmp_path / "a.png").unlink()
    with pytest.raises(SampleError, match=r"row 3 is .*a\.png"):
        _ = image.pixels


# -- files ---------------------------------------------------------------------------------------


def rows_of(samples):
    return [sample.to_row() for sample in samples]


def test_the_rows_of_parquet_are_read(tmp_path):
    pytest.importorskip("pyarrow")
    from samples import write_samples

    samples = list(generated_samples(300))
    write_samples(samples, tmp_path / "a.parquet")
    assert rows_of(read_samples(tmp_path)) == rows_of(samples)


def test_the_rows_of_hugging_face_datasets_are_read(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    from samples import as_arrow

    samples = list(generated_samples(6))
    table = datasets.Dataset.from_list(list(map(as_arrow, samples)))
    table = table.cast_column("images", datasets.List(datasets.Image()))
    assert table[0]["images"][0].size == (224, 224)
    table.save_to_disk(str(tmp_path / "saved"))
    assert rows_of(read_samples(tmp_path / "saved")) == rows_of(samples)


def test_other_rows_stand_in_jsonl_and_paths_begin_beside_it(tmp_path):
    (tmp_path / "a.png").write_bytes(png())
    line = json.dumps(row(images=["a.png"]))
    (tmp_path / "rows.jsonl").write_text(f"{line}\n\n{line}\n")
    assert [sample.images[0].size for sample in read_samples(tmp_path / "rows.jsonl")] == [
        (6, 4)
    ] * 2


def test_files_that_are_none_are_said(tmp_path):
    pytest.importorskip("pyarrow")
    with pytest.raises(SampleError, match="neither a file nor a folder"):
        list(read_samples(tmp_path / "no"))
    with pytest.raises(SampleError, match="has no samples"):
        list(read_samples(tmp_path))
    from samples import write_samples

    whole = tmp_path / "whole.parquet"
    write_samples(generated_samples(3), whole)
    (tmp_path / "half.parquet").write_bytes(whole.read_bytes()[:1000])
    (tmp_path / "noise.arrow").write_bytes(b"noise" * 100)
    (tmp_path / "bad.jsonl").write_text('{"data_source": "x"}\n{oops\n')
    for name, said in [
        ("half.parquet", "half.parquet can't be read"),
        ("noise.arrow", "noise.arrow can't be read"),
        ("bad.jsonl", "bad.jsonl row 0: reward_model=None"),
    ]:
        with pytest.raises(SampleError, match=said):
            list(read_samples(tmp_path / name))


def test_by_content_no_picture_is_in_two_splits(tmp_path):
    lines = [
        json.dumps(
            row(
                images=[base64.b64encode(png((i, 0, 0))).decode()],
                prompt=[{"role": "user", "content": f"Question {j}?"}],
            )
        )
        for i in range(60)
        for j in range(3)
    ]
    one, other = tmp_path / "one.jsonl", tmp_path / "test.jsonl"
    one.write_text("\n".join(lines))
    other.write_text("\n".join([*lines, *lines[:9]]))
    with pytest.warns(UserWarning, match="9 of 189 samples left out: 9 the same as another"):
        first, second = (
            load_sample_set(str(path), "content", (), 64, 1000) for path in (one, other)
        )
    assert first.fingerprint == second.fingerprint
    pictures = {}
    for split, samples in first.splits.items():
        for sample in samples:
            assert pictures.setdefault(sample.picture_key, split) == split
    assert sum(map(len, first.splits.values())) == 180
    assert all(first.splits.values())


@pytest.mark.parametrize(
    "name", ["test.jsonl", "test-00000-of-00001.jsonl", "test/a.jsonl", "data/test-0.jsonl"]
)
def test_a_published_split_is_kept_in_its_order(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    rows = [
        row(images=[], prompt=[{"role": "user", "content": f"Question {i}?"}]) for i in range(20)
    ]
    (tmp_path / name).write_text("\n".join(map(json.dumps, rows)))
    splits = load_sample_set(str(tmp_path), "published", (), 64, 1000).splits
    assert [sample.question for sample in splits["test"]] == [f"Question {i}?" for i in range(20)]
    assert not splits["train"]
    env = gym.make("vagen/Sample-v0", dataset=str(tmp_path), split="test").unwrapped
    assert env.level_count == 20
    asked = [env.reset(options={"level": i}) and env.sample.question for i in range(20)]
    assert asked == [f"Question {i}?" for i in range(20)]


def test_what_is_too_large_is_left_out_and_counted(tmp_path):
    small, large = (base64.b64encode(png(size=size)).decode() for size in ((6, 4), (90, 4)))
    rows = [
        row(images=[small] * 2),
        row(images=[large]),
        row(images=[small], prompt=[{"role": "user", "content": "x" * 99}]),
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.warns(UserWarning, match="2 of 3 samples left out: 2 larger"):
        found = load_sample_set(str(tmp_path), "published", (), 64, 50)
    assert found.size == (4, 6 + 8 + 6)
    with pytest.raises(ConfigError, match=r"no sample left.*sources=\('other',\) of mine"):
        load_sample_set(str(tmp_path), "published", ("other",), 64, 50)


# -- other schemas -------------------------------------------------------------------------------

LLAVA = {
    "id": "1",
    "image": "a.png",
    "conversations": [
        {"from": "human", "value": "<image>\nHow many?"},
        {"from": "gpt", "value": "3"},
    ],
}


@pytest.mark.parametrize(
    ("other", "columns"),
    [
        (
            {"question": "How many?", "answer": 3, "image": "a.png"},
            {"question": "prompt", "answer": "answer", "image": "images"},
        ),
        (LLAVA, {"conversations": "prompt", "image": "images"}),
        (
            {"messages": [{"role": "user", "content": "How many?"}], "y": "3", "pics": ["a.png"]},
            {"messages": "prompt", "y": "answer", "pics": "images"},
        ),
        (
            {"question": "How many?", "answers": ["4", "3", "3"], "image": "a.png"},
            {"question": "prompt", "answers": "answer", "image": "images"},
        ),
        (
            {"q": "How many?", "answers": [{"answer": "3", "answer_id": 1}], "image": "a.png"},
            {"q": "prompt", "answers": "answer", "image": "images"},
        ),
        (
            {
                "chat": [
                    {
                        "role": "user",
                        "content": [{"type": "image"}, {"type": "text", "text": "How many?"}],
                    },
                    {"role": "assistant", "content": [{"type": "text", "text": "3"}]},
                ],
                "image": "a.png",
            },
            {"chat": "prompt", "image": "images"},
        ),
        (
            {**LLAVA, "label": 3},
            {"conversations": "prompt", "image": "images", "label": "answer"},
        ),
    ],
)
@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_rows_of_other_schemas_are_played_by_naming_their_columns(tmp_path, other, columns, form):
    (tmp_path / "a.png").write_bytes(png())
    path = tmp_path / f"rows.{form}"
    text = json.dumps([other, other] if form == "json" else other)
    path.write_text(text, encoding="utf-8-sig")
    sample = next(iter(read_samples(path, columns)))
    assert (sample.question, sample.reward_model.truth) == ("How many?", "3")
    assert (sample.data_source, sample.images[0].size) == ("rows", (6, 4))
    env = gym.make("vagen/Sample-v0", dataset=str(path), columns=columns, split_by="all")
    for split in ("train", "test"):
        env.reset(seed=0, options={"split": split})
        *_, info = env.step("<think>.</think><answer>\\boxed{3}</answer>")
        assert info["turn"].success


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"question": "promt"}, "Did you mean 'prompt'"),
        ({"query": "prompt"}, "there is no column 'query'; the row has question, answer"),
        ({"answer": "answer"}, "has no prompt"),
        ({"question": "prompt"}, "answer=None is not a text or a number"),
        ({"question": "prompt", "answer": "prompt"}, "names a part twice"),
        (
            {"question": "prompt", "answer": "answer", "pic": "images"},
            "no row has the column 'pic'",
        ),
        ({}, 'columns={"question": "prompt"}'),
    ],
)
def test_wrong_columns_are_said(tmp_path, columns, said):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"question": "How many?", "answer": "3"}))
    with pytest.raises(SampleError, match=said):
        list(read_samples(path, columns))


def test_a_conversation_keeps_what_was_answered_before_and_may_lack_a_picture(tmp_path):
    (tmp_path / "a.png").write_bytes(png())
    talk = [("human", "How many?"), ("gpt", "3"), ("human", "Which colour?"), ("gpt", "Red")]
    turns = [{"from": speaker, "value": text} for speaker, text in talk]
    rows = [LLAVA, {"id": "2", "conversations": turns}]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    columns = {"conversations": "prompt", "image": "images"}
    first, second = read_samples(tmp_path / "rows.json", columns)
    assert (len(first.images), len(second.images)) == (1, 0)
    assert second.question == "How many?\nAnswer: 3\nWhich colour?"
    assert second.reward_model.truth == "Red"


@pytest.mark.parametrize(
    ("name", "text"), [("a.jsonl", ""), ("b.jsonl", "\ufeff\n\n"), ("c.json", "[]"), ("d.json", "")]
)
def test_an_empty_file_says_that_it_is_empty(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    for columns in ({}, {"q": "prompt", "i": "images"}):
        with pytest.raises(SampleError, match="is empty"):
            list(read_samples(tmp_path / name, columns))


def test_a_folder_without_tables_is_told_of_lists(tmp_path):
    (tmp_path / "llava.json").write_text(json.dumps([LLAVA]))
    with pytest.raises(SampleError, match=r"give the path of a \.json list itself"):
        list(read_samples(tmp_path, {"conversations": "prompt"}))
