#!/usr/bin/env python3
"""Tokens a second of the public transformers library on the dense checkpoint, beside forward_bench.

Rounds are interleaved with forward_bench's: each round decodes the first launch of the suite token by token in
transformers, then runs one round of forward_bench; medians are printed. Decoding is by argmax, and every token is
compared with the trace. Both use one thread; time is the process's time on the CPU.

  transformers_bench.py --program build/bin/forward_bench --dense DIR --circuit FILE [--dtype float32] [--rounds 5]
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time


def run_forward_bench(args, folder, trace=None):
    """One round of forward_bench; its rows."""
    out = os.path.join(folder, "rows.json")
    command = [args.program, "--circuit", args.circuit, "--rounds", "1", "--json", out, "--dtypes", args.dtype]
    command += ["--executors", args.executors, "--slow-tokens", str(args.tokens)]
    command += ["--base", args.base] if args.base else []
    command += ["--trace", trace] if trace else []
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(out, encoding="utf-8") as file:
        return json.load(file)["rows"]


def decode(model, torch, first_id, launch, limit):
    """Feeds the host's tokens, decodes `limit` tokens; (prefill seconds, decode seconds, tokens)."""
    with torch.no_grad():
        start = time.process_time()
        prompt = torch.tensor([[first_id + t for t in launch["host"]]])
        out = model(prompt, use_cache=True)
        prefill = time.process_time() - start
        start = time.process_time()
        expected = launch["trace"][:limit]
        for position, token in enumerate(expected):
            got = int(out.logits[0, -1].argmax()) - first_id
            if got != token:
                raise SystemExit(f"position {position}: transformers wrote {got}, expected {token}")
            if position + 1 < len(expected):
                out = model(torch.tensor([[first_id + got]]), past_key_values=out.past_key_values, use_cache=True)
        return prefill, time.process_time() - start, len(expected)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="forward_bench")
    parser.add_argument("--circuit", required=True)
    parser.add_argument("--dense", required=True, help="dense checkpoint, as exported")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--executors", default="sparse")
    parser.add_argument("--base", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=20, help="tokens a round in transformers and torch")
    args = parser.parse_args()

    import torch  # noqa: E402 (slow to load; --help should not need it)
    from transformers import Qwen3_5ForCausalLM

    torch.set_num_threads(1)
    model = Qwen3_5ForCausalLM.from_pretrained(args.dense, dtype=getattr(torch, args.dtype)).eval()
    with open(os.path.join(args.dense, "qgpu_manifest.json"), encoding="utf-8") as file:
        first = json.load(file)["first_machine_token"]
    rates = {}
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace.json")
        for round_number in range(args.rounds):
            for row in run_forward_bench(args, folder, trace):
                rates.setdefault(row["name"], []).append((row["prefill_tokens_per_s"], row["decode_tokens_per_s"]))
            with open(trace, encoding="utf-8") as file:
                launch = json.load(file)
            prefill, seconds, tokens = decode(model, torch, first, launch, args.tokens)
            rate = (len(launch["host"]) / prefill, tokens / seconds)
            rates.setdefault(f"transformers dense {args.dtype}", []).append(rate)
            print(f"round {round_number + 1} of {args.rounds}", flush=True)
    print(f"{'configuration':<32}{'prefill tok/s':>15}{'decode tok/s':>15}")
    for name, pairs in rates.items():
        print(f"{name:<32}{statistics.median(p for p, _ in pairs):>15.1f}{statistics.median(d for _, d in pairs):>15.1f}")


if __name__ == "__main__":
    main()
