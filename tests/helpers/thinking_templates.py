"""Chat templates in the manner of families that think, for the parity kit's model."""

_PARTS = (
    "{% if message.content is string %}{{ message.content }}"
    "{% else %}{% for part in message.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"
)
_TURNS = (
    "{% for message in turns %}<|im_start|>{{ message.role }}\n" + _PARTS + "<|im_end|>\n"
    "{% endfor %}"
)

QWEN3_5 = (
    # Opens thoughts itself, and keeps those behind the last observation only.
    "{% set ns = namespace(last=-1) %}"
    "{% for message in messages %}{% if message.role == 'user' %}{% set ns.last = loop.index0 %}"
    "{% endif %}{% endfor %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.role == 'assistant' %}"
    "{% set said = message.content if message.content is string else message.content[0].text %}"
    "{% if '</think>' in said %}"
    "{% set thought = said.split('</think>')[0].split('<think>')[-1].strip('\n') %}"
    "{% set said = said.split('</think>')[-1].lstrip('\n') %}"
    "{% else %}{% set thought = '' %}{% endif %}"
    "{% if loop.index0 > ns.last %}<think>\n{{ thought }}\n</think>\n\n{% endif %}{{ said }}"
    "{% else %}" + _PARTS + "{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n"
    "{% else %}<think>\n{% endif %}{% endif %}"
)
SMOLLM3 = (
    # Tells the mode in the system message, and lets the model open its thoughts.
    "{% set mode = '/no_think' if enable_thinking is defined and not enable_thinking else '/think' %}"
    "{% set custom, turns = '', messages %}"
    "{% if messages[0].role == 'system' %}"
    "{% set custom, turns = messages[0].content, messages[1:] %}{% endif %}"
    "<|im_start|>system\n## Metadata\n\nReasoning Mode: {{ mode }}\n\n"
    "## Custom Instructions\n\n{{ custom }}<|im_end|>\n" + _TURNS + "{% if add_generation_prompt %}"
    "<|im_start|>assistant\n{% if mode == '/no_think' %}<think>\n\n</think>\n{% endif %}{% endif %}"
)
ANOTHER_MARK = (
    # As Gemma 4's `<|channel>thought … <channel|>`, in tokens that the tiny model has.
    "{% set turns = messages %}" + _TURNS + "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<reasoning>thought\n</reasoning>"
    "{% endif %}{% endif %}"
)
TEMPLATES = {"qwen3_5": QWEN3_5, "smollm3": SMOLLM3, "another_mark": ANOTHER_MARK}
MARKS = {
    "qwen3_5": ("<think>\n", "\n</think>\n\n"),
    "smollm3": ("<think>\n", "\n</think>\n"),
    "another_mark": ("<reasoning>thought\n", "</reasoning>"),
}
"""What opens thoughts, and what closes those that are cut."""
