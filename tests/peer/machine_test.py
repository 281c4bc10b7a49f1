"""The machine in transformers: greedy generation from the dot demo's prompt writes its trace, and text is left alone.

The one check that no code of ours can fake. Needs 4 GB of memory and as much disk for the export. Arguments: peer_tool, then data types."""
import pathlib
import sys
import tempfile

import peer
from checks import check_generation, check_text, read_trace
from peer import AutoModelForCausalLM, torch
from transformers import AutoTokenizer


def main():
    for type_name in sys.argv[2:]:
        with tempfile.TemporaryDirectory() as scratch:
            base_dir, out, trace_file = (pathlib.Path(scratch, name) for name in ("base", "out", "trace"))
            peer.tool("export-machine", base_dir, out, type_name, trace_file)
            prompt, trace = read_trace(trace_file)
            model = AutoModelForCausalLM.from_pretrained(out).eval()
            assert type(model).__name__ == "Qwen3_5ForCausalLM" and model.dtype == peer.TYPES[type_name]
            base = AutoModelForCausalLM.from_pretrained(base_dir).eval().to(torch.float32)
            check_generation(model, prompt, trace, type_name, max_new_tokens=len(trace) + 20)  # ends at DONE by itself
            check_text(model, base, model.config.num_hidden_layers - base.config.num_hidden_layers, type_name)
            tokenizer = AutoTokenizer.from_pretrained(out)
            text = tokenizer.decode(prompt + trace)
            assert text.endswith("<|qgpu_done|>") and tokenizer.encode(text) == prompt + trace
            print(f"{type_name}: {len(prompt)} tokens fed, {len(trace)} written as the interpreter writes them")


if __name__ == "__main__":
    main()
