"""Write a tiny Llama model with random weights in GGUF format, which a real inference server loads: `python tiny_model.py FILE`.

It knows nothing. Free text is noise with control characters and markup in it; what the server holds to a grammar, forced tool
calls and JSON schemas, comes out well-formed with random values.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import string
import sys
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np

CONTEXT = 32_768
"""Tokens; nearly every character is one."""
LAYERS, HEADS, WIDTH, HIDDEN = 2, 4, 64, 128
SPREAD = 0.05
"""Standard deviation of the weights."""
BYTES = tuple(f"<0x{value:02X}>" for value in range(256))
"""The tokenizer's spelling of bytes, for text that has no token of its own."""
SPACE = "\u2581"
ENDS = ("<|im_end|>", "<|eot_id|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>", "<end_of_turn>")
"""Any of these ends a reply: the more there are, the shorter is the noise."""
ESCAPES = ("\x1b[2J", "\x1b]0;x\x07", "\x9b31m", "\u202e", "\u2066", "\u2028")
MARKUP = ("<script>", "</td>", "=1+1", "@SUM(", "```json", "[[ ## ")
"""What a terminal, a page, a spreadsheet or a parser may take for its own."""
LOUD = 3.0
"""How much more such text stands out among the likely next words."""


def vocabulary() -> Iterator[tuple[str, gguf.TokenType]]:
    yield "<unk>", gguf.TokenType.UNKNOWN
    for text in ("<s>", "</s>", "<|im_start|>", *ENDS):
        yield text, gguf.TokenType.CONTROL
    for text in BYTES:
        yield text, gguf.TokenType.BYTE
    for text in (SPACE, *string.ascii_letters, *string.digits, *string.punctuation, *ESCAPES, *MARKUP):
        yield text, gguf.TokenType.NORMAL


def shapes(tokens: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of all weights."""
    yield "token_embd.weight", (tokens, WIDTH)
    yield "output.weight", (tokens, WIDTH)
    yield "output_norm.weight", (WIDTH,)
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        for name in ("attn_norm", "ffn_norm"):
            yield f"{block}.{name}.weight", (WIDTH,)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"{block}.{name}.weight", (WIDTH, WIDTH)
        for name in ("ffn_gate", "ffn_up"):
            yield f"{block}.{name}.weight", (HIDDEN, WIDTH)
        yield f"{block}.ffn_down.weight", (WIDTH, HIDDEN)


def write(path: Path) -> None:
    """The same file every time."""
    texts, kinds = zip(*vocabulary(), strict=True)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_block_count(LAYERS)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(texts))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(texts)
    writer.add_token_scores([-float(len(text)) for text in texts])
    writer.add_token_types(kinds)
    writer.add_unk_token_id(texts.index("<unk>"))
    writer.add_bos_token_id(texts.index("<s>"))
    writer.add_eos_token_id(texts.index("</s>"))
    random = np.random.default_rng(0)
    for name, shape in shapes(len(texts)):
        values = np.ones(shape) if len(shape) == 1 else random.normal(0, SPREAD, shape)
        if name == "output.weight":
            values[[texts.index(text) for text in (*ESCAPES, *MARKUP)]] *= LOUD
        writer.add_tensor(name, values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
