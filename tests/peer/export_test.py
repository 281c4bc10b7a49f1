"""A dense export in transformers, with none of our code in the way: greedy generation writes the trace, text is the base's."""
import pathlib
import tempfile

import peer
from checks import check_generation, check_text, read_trace
from peer import AutoModelForCausalLM, torch
from transformers import AutoTokenizer


def check_tokenizer(directory, prompt, base_vocabulary):
    tokenizer = AutoTokenizer.from_pretrained(directory)
    text = tokenizer.decode(prompt)
    assert tokenizer.encode(text) == prompt, f"{text} does not come back as {prompt}"
    for sample in ("Hello, world!\n", "na\u00efve \u4e2d\u6587 \U0001f600", "  two  spaces"):
        ids = tokenizer.encode(sample)
        assert max(ids) < base_vocabulary and tokenizer.decode(ids) == sample, sample


def main():
    for type_name, dtype in peer.TYPES.items():
        with tempfile.TemporaryDirectory() as scratch:
            base_dir, out, trace_file = (pathlib.Path(scratch, name) for name in ("base", "out", "trace"))
            peer.tool("export-synthetic", base_dir, out, type_name, trace_file)
            prompt, trace = read_trace(trace_file)
            assert len(set(trace)) > 10
            model = AutoModelForCausalLM.from_pretrained(out).eval()
            assert type(model).__name__ == "Qwen3_5ForCausalLM" and model.dtype == dtype
            base = AutoModelForCausalLM.from_pretrained(base_dir).eval().to(torch.float32)
            compiled = model.config.num_hidden_layers - base.config.num_hidden_layers
            check_generation(model, prompt, trace, type_name, max_new_tokens=len(trace), eos_token_id=-1)
            check_text(model, base, compiled, type_name)
            check_tokenizer(out, prompt, base.config.vocab_size)


if __name__ == "__main__":
    main()
