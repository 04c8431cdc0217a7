"""Checks of the sampler against the environment.

Sampler and trainer may agree with each other and both be wrong: the environment played another text
than was sampled, or the model read another one than the environment wrote.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from vagen_adapters.parity.reference_model import ReferenceModel
from vagen_adapters.parity.sampler import SamplerCall
from vagen_adapters.parity.tiny_model import END, IMAGE, START, VISION_END, VISION_START
from vagen_adapters.parity.trained import Playback
from vagen_envs.turn import IMAGE_PLACEHOLDER

PICTURE = f"{VISION_START}{IMAGE}{VISION_END}"
"""How the checkpoint's chat template writes a picture."""
MESSAGE = re.compile(
    f"{re.escape(START)}(system|user|assistant|tool)\n(.*?){re.escape(END)}\n", re.DOTALL
)
AROUND_PICTURE = re.compile(f"\n*({re.escape(PICTURE)})\n*")
"""As parts of a message, text and picture have no line break between them."""
TOOL_RESULT = re.compile(r"\s*<tool_response>\n(.*?)\n</tool_response>\s*", re.DOTALL)
"""Templates write a tool's result as a message of the user, between these tags."""


def replies_played(playback: Playback) -> Iterator[str]:
    """The environment plays each sampled reply, once, as it was sampled."""
    sampled = [call for call in playback.sampler.calls if not call.summary]
    played = playback.env.played
    for number, (call, text) in enumerate(zip(sampled, played, strict=False)):
        if text.strip() not in _texts(playback.model, call):
            wanted = _texts(playback.model, call)[0]
            yield f"turn {number}: sampled was {wanted!r}, the environment played {text!r}"
            return
    if len(played) > len(sampled):
        yield f"turn {len(sampled)}: the environment played {played[len(sampled)]!r}, unsampled"
    is_over = playback.env.is_over or playback.room is not None
    if len(played) < len(sampled) and not is_over:
        yield f"turn {len(played)}: the sampled reply was never played"


def observations_read(playback: Playback) -> Iterator[str]:
    """Each reply's prompt is, in the checkpoint's chat template, what the environment wrote.

    That is the system prompt, and for each turn that is shown the observation's text with its
    picture in place. Earlier turns may be left out or summarised, the current one not.
    """
    for call in playback.sampler.calls:
        if not call.summary:
            fault = _misread(playback, call)
            if fault:
                yield f"turn {call.turn}: {fault}"
                return


ENV_CHECKS: dict[str, Callable[[Playback], Iterator[str]]] = {
    "played": replies_played,
    "read": observations_read,
}
"""By the name in the report. They look at an episode, not at its sequences."""


def _texts(model: ReferenceModel, call: SamplerCall) -> list[str]:
    """A reply's text, with and without special tokens that aren't its end."""
    reply = call.reply
    if model.encoder.thought_end_id in reply:  # the model's own thoughts are none of its words
        reply = reply[reply.index(model.encoder.thought_end_id) + 1 :]
    tokens = [token for token in reply if token != model.end_token]
    decode = model.encoder.tokenizer.decode
    return [decode(tokens).strip(), decode(tokens, skip_special_tokens=True).strip()]


def _misread(playback: Playback, call: SamplerCall) -> str:
    """What is wrong with the prompt of a reply; empty if nothing is."""
    model = playback.model
    prompt = model.encoder.tokenizer.decode(model.collapse(call.ids)[0])
    begun, opening, rest = prompt.rpartition(f"{START}assistant\n")
    if not opening or rest != model.encoder.conversation.marks.opening:
        return f"the prompt doesn't end where a reply begins, but with {prompt[-40:]!r}"
    messages = MESSAGE.findall(begun)
    if MESSAGE.sub("", begun):
        return f"the prompt has {MESSAGE.sub('', begun)[:60]!r} between its messages"
    if not messages or messages[0][0] != "system":
        return "the prompt doesn't begin with a system prompt"
    system = playback.env.unwrapped.system_prompt  # type: ignore[attr-defined]
    if system.strip() not in messages[0][1]:  # templates write of the date and the mode before it
        return f"the system prompt is {messages[0][1][:60]!r}, the environment's {system[:60]!r}"
    shown = _observations(messages[1:])
    if shown is None:
        return "messages of the two sides don't alternate"
    return _compared(playback, call, shown)


def _observations(messages: Sequence[tuple[str, str]]) -> list[str] | None:
    """What the environment's side says in each turn; None if one side speaks twice in a row."""
    roles = [role for role, _ in messages]
    ours = roles[::2]
    theirs = roles[1::2]
    if "assistant" in ours or any(role != "assistant" for role in theirs):
        return None
    if "system" in roles or len(messages) % 2 == 0:
        return None
    return [_laid_out(TOOL_RESULT.sub(r"\1", content)) for _, content in messages[::2]]


def _laid_out(text: str) -> str:
    return AROUND_PICTURE.sub(r"\1", text.strip())


def _compared(playback: Playback, call: SamplerCall, shown: Sequence[str]) -> str:
    texts = playback.env.texts[: call.seen]
    written = [_laid_out(text.replace(IMAGE_PLACEHOLDER, PICTURE)) for text in texts]
    has_summary = any(each.summary for each in playback.sampler.calls)
    if len(shown) > len(written):
        return f"{len(shown)} observations are shown, {len(written)} were written"
    for number, text in enumerate(shown):
        wanted = written[len(written) - len(shown) + number]
        # A summary of earlier turns stands before the first observation behind it.
        is_same = text.endswith(wanted) if has_summary and number == 0 else text == wanted
        if not is_same:
            return f"the model read {text[-80:]!r}, the environment wrote {wanted[-80:]!r}"
    return ""
