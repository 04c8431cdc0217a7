"""The judge that VAGEN tried first: how alike CLIP finds the picture and the text (section 5.1).

It is here as the baseline it was. CLIP hardly sees where things are: the authors found it "insufficiently
sensitive to fine-grained spatial and geometric details", and `vagen judge calibrate --judge clip` shows it.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import io
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vagen_rewards.errors import JudgeConfigError, MissingExtraError
from vagen_rewards.scores import Judge, Score, Statement

WEIGHTS_VARIABLE = "VAGEN_CLIP_WEIGHTS"

GET = "hf download openai/clip-vit-base-patch32 --local-dir clip && export VAGEN_CLIP_WEIGHTS=$PWD/clip"
"""The command that gets weights, where their hub can be reached."""

_NEEDED = (
    ("config.json",),
    ("preprocessor_config.json",),
    ("model.safetensors", "pytorch_model.bin"),
    ("tokenizer.json", "vocab.json"),
)


def weights_missing(weights: str | Path | None = None) -> str:
    """What of CLIP's weights isn't there, in words; empty if nothing is missing.

    Args:
        weights: the folder; `$VAGEN_CLIP_WEIGHTS` by default.
    """
    folder = str(weights or os.environ.get(WEIGHTS_VARIABLE, ""))
    if not folder:
        return f"a folder of CLIP's weights (weights= or ${WEIGHTS_VARIABLE})"
    lacking = [files[0] for files in _NEEDED if not any((Path(folder) / file).is_file() for file in files)]
    return f"{', '.join(lacking)} in {folder}" if lacking else ""


class ClipJudge(Judge):
    """Scores a statement by CLIP's similarity of its text and the picture of its time.

    The score is `weight` × max(0, cosine), 1 at most: CLIPScore (Hessel et al. 2021) with its weight of 2.5;
    the paper doesn't give its formula. Statements are unscored where the weights are missing and where there
    is no picture. CLIP reads 77 tokens; what follows is cut off.

    Args:
        weights: a folder with `config.json`, `preprocessor_config.json`, `model.safetensors` and the tokenizer,
            as `hf download` makes it; `$VAGEN_CLIP_WEIGHTS` by default. Nothing is downloaded.
        weight: see above; above 0.
        batch_size: pictures embedded at once.
        device: for torch; a GPU if there is one by default.

    Raises:
        MissingExtraError: torch or transformers isn't installed.
        JudgeConfigError: an option is out of range.
    """

    needs_pictures = True

    def __init__(
        self,
        weights: str | Path | None = None,
        *,
        weight: float = 2.5,
        batch_size: int = 32,
        device: str | None = None,
    ) -> None:
        for module in ("torch", "transformers"):
            if importlib.util.find_spec(module) is None:
                raise MissingExtraError("ClipJudge", "clip", module)
        if not weight > 0 or batch_size < 1:
            raise JudgeConfigError(f"weight {weight} must be above 0 and batch_size {batch_size} at least 1")
        self.weights = str(weights or os.environ.get(WEIGHTS_VARIABLE, ""))
        self.weight, self.batch_size, self.device = weight, batch_size, device
        self.name = f"clip:{Path(self.weights).name or 'no weights'}"
        self._loaded: tuple[Any, Any, Any] | None = None
        self._busy = threading.Lock()

    def score(self, statement: Statement) -> Score:
        return self._score_all([statement])[0]

    async def score_many(self, statements: Sequence[Statement]) -> list[Score]:
        return await asyncio.to_thread(self._score_all, statements)

    def _score_all(self, statements: Sequence[Statement]) -> list[Score]:
        lacking = weights_missing(self.weights)
        scores: list[Score] = []
        asked: list[int] = []
        for i, statement in enumerate(statements):
            if not statement.text or statement.text.isspace():
                scores.append(Score(0.0, "the statement is empty"))
                continue
            why = f"missing: {lacking}; get it with: {GET}" if lacking else "there is no picture of that time"
            scores.append(Score.unscored(why))
            if statement.picture is not None and not lacking:
                asked.append(i)
        with self._busy:
            for start in range(0, len(asked), self.batch_size):
                batch = asked[start : start + self.batch_size]
                try:
                    values = self._similarities([statements[i] for i in batch])
                except (OSError, ValueError, RuntimeError, KeyError) as error:  # broken weights or pictures, no memory
                    reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
                    for i in batch:
                        scores[i] = Score.unscored(reason)
                    continue
                for i, cosine in zip(batch, values, strict=True):
                    value = min(1.0, self.weight * max(0.0, cosine))
                    scores[i] = Score(value, f"cosine similarity of picture and text {cosine:.3f}")
        return scores

    def _similarities(self, statements: list[Statement]) -> list[float]:
        from PIL import Image

        torch: Any = importlib.import_module("torch")
        model, tokenizer, processor = self._load(torch)
        texts = [" ".join(statement.text.split()) for statement in statements]
        pictures = [Image.open(io.BytesIO(each.picture or b"")).convert("RGB") for each in statements]
        words = tokenizer(texts, padding=True, truncation=True, max_length=_positions(model), return_tensors="pt")
        seen = processor(images=pictures, return_tensors="pt")
        with torch.inference_mode():
            output = model(**words.to(model.device), pixel_values=seen["pixel_values"].to(model.device))
            cosines = (output.text_embeds * output.image_embeds).sum(-1)  # both have length 1
        return [float(each) for each in cosines]

    def _load(self, torch: Any) -> tuple[Any, Any, Any]:
        if self._loaded is None:
            transformers: Any = importlib.import_module("transformers")
            pil: Any = importlib.import_module("transformers.models.clip.image_processing_pil_clip")
            model = transformers.CLIPModel.from_pretrained(self.weights, local_files_only=True)
            tokenizer = transformers.CLIPTokenizer.from_pretrained(self.weights, local_files_only=True)
            processor = pil.CLIPImageProcessorPil.from_pretrained(self.weights, local_files_only=True)
            device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
            self._loaded = model.to(device).eval(), tokenizer, processor
        return self._loaded

    def __getstate__(self) -> dict[str, Any]:
        """For vector environments: the model is loaded anew in another process."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_loaded", "_busy")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._loaded, self._busy = None, threading.Lock()


def _positions(model: Any) -> int:
    return int(model.config.text_config.max_position_embeddings)
