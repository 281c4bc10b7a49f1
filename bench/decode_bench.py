#!/usr/bin/env python3
"""Greedy decoding of one checkpoint by ours and by the public transformers library, beside a memory bandwidth probe.

  build/bin/random_checkpoint --out DIR
  decode_bench.py --program build/bin/decode_bench --checkpoint DIR [--dtype float32] [--rounds 11] [--steps 8]

Each round is a read of a buffer by the probe, a decode by ours and one by transformers, in turning order; medians over
the rounds are printed, and medians of the ratios within a round. Time is the time that passes; what the threads ran of
it is printed as well, which on a busy machine says more.

transformers runs as fast as its own settings make it here: the checkpoint's type, as many threads, inference mode, a
cache, sdpa attention, only the last position's logits; it is fed our ids, so that both compute the same, and at each
step its best id must be ours or ahead of it by less than --tolerance. Exit code 1 if it is not, or if ours reaches
neither 1.5 times transformers nor 85% of the probe per weight byte.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import warnings

TIMES_TRANSFORMERS = 1.5
SHARE_OF_PROBE = 0.85


class Ours:
    """decode_bench, asked line by line."""

    def __init__(self, args):
        command = [args.program, args.checkpoint, "--dtype", args.dtype, "--threads", str(args.threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        description = self.answer()
        self.weight_bytes, self.prompt = description["weight_bytes"], description["prompt"]

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("decode_bench.py: the program ended; see its message above")
        return json.loads(line)

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.answer()


class Transformers:
    def __init__(self, args, prompt):
        import torch
        from transformers import Qwen3_5ForCausalLM, logging

        warnings.simplefilter("ignore", FutureWarning)  # of names that later versions give arguments
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        torch.set_num_threads(args.threads)
        if args.without_onednn:
            torch.backends.mkldnn.set_flags(False)
        self.torch = torch
        self.prompt = prompt
        self.model = Qwen3_5ForCausalLM.from_pretrained(
            args.checkpoint, dtype=getattr(torch, args.dtype), attn_implementation="sdpa").eval()
        if args.compile:
            self.model.forward = torch.compile(self.model.forward)

    def decode(self, ids):
        """Feeds `ids` one by one behind the prompt; times, and the logits before each of them."""
        torch = self.torch
        with torch.inference_mode():
            start = time.perf_counter()
            out = self.model(torch.tensor([self.prompt]), use_cache=True, logits_to_keep=1)
            prefill = time.perf_counter() - start
            logits, best = [out.logits[0, -1]], []
            start, cpu_start = time.perf_counter(), time.process_time()
            for token in ids[:-1]:
                best.append(int(logits[-1].argmax()))  # a decoder would feed this one
                out = self.model(torch.tensor([[token]]), past_key_values=out.past_key_values, use_cache=True,
                                 logits_to_keep=1)
                logits.append(out.logits[0, -1])
            seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
            margins = [(row.max() - row[token]).item() for row, token in zip(logits, ids)]
        return {"seconds": seconds, "cpu_seconds": cpu_seconds, "prefill_seconds": prefill, "margins": margins}


def run_rounds(args, ours, transformers):
    """Reports of all rounds by name."""
    reports = {"probe": [], "ours": [], "transformers": []}
    ids = ours.ask(f"decode {args.steps}")["ids"]  # warms up, and says what transformers is fed
    transformers.decode(ids)
    ours.ask("probe")
    for number in range(args.rounds):
        for turn in range(3):
            name = list(reports)[(turn + number) % 3]
            if name == "probe":
                report = ours.ask("probe")
                report["rate"] = report["bytes"] / report["seconds"]
                report["cpu_rate"] = args.threads * report["bytes"] / report["cpu_seconds"]
            else:
                report = ours.ask(f"decode {args.steps}") if name == "ours" else transformers.decode(ids)
                if report.get("ids", ids) != ids:
                    sys.exit("decode_bench.py: ours decoded other ids than before")
                report["rate"] = args.steps * ours.weight_bytes / report["seconds"]
                report["cpu_rate"] = args.threads * args.steps * ours.weight_bytes / report["cpu_seconds"]
            reports[name].append(report)
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
    return reports


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="decode_bench")
    parser.add_argument("--checkpoint", required=True, help="directory, as random_checkpoint writes it")
    parser.add_argument("--dtype", default="bfloat16", choices=["float32", "bfloat16"])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--steps", type=int, default=8, help="tokens that each decodes in a round")
    parser.add_argument("--tolerance", type=float, help="of logits; default 0.001 in float32, 0.5 in bfloat16")
    parser.add_argument("--without-onednn", action="store_true", help="transformers without libtorch's oneDNN products")
    parser.add_argument("--compile", action="store_true", help="transformers under torch.compile")
    args = parser.parse_args()
    tolerance = args.tolerance or (0.001 if args.dtype == "float32" else 0.5)

    ours = Ours(args)
    reports = run_rounds(args, ours, Transformers(args, ours.prompt))

    def median(name, field):
        return statistics.median(report[field] for report in reports[name])

    def ratio(name, field="rate"):
        pairs = zip(reports["ours"], reports[name])
        return statistics.median(mine[field] / other[field] for mine, other in pairs)

    print(f"{args.dtype}, {args.threads} threads, {args.rounds} rounds of {args.steps} tokens behind "
          f"{len(ours.prompt)}, {ours.weight_bytes / 1e9:.2f} GB of weights a token")
    print(f"{'medians':<14}{'tokens/s':>10}{'GB/s':>8}{'GB/s by CPU time':>18}{'prefill tokens/s':>18}")
    for name in reports:
        row = f"{name:<14}"
        row += f"{'':>10}" if name == "probe" else f"{median(name, 'rate') / ours.weight_bytes:>10.2f}"
        row += f"{median(name, 'rate') / 1e9:>8.1f}{median(name, 'cpu_rate') / 1e9:>18.1f}"
        row += "" if name == "probe" else f"{len(ours.prompt) / median(name, 'prefill_seconds'):>18.1f}"
        print(row)
    times, share = ratio("transformers"), ratio("probe")
    print(f"ours / transformers {times:.2f} (by CPU time {ratio('transformers', 'cpu_rate'):.2f}), "
          f"ours / probe {share:.2f} (by CPU time {ratio('probe', 'cpu_rate'):.2f})")

    margins = reports["transformers"][0]["margins"]
    agreeing, worst = sum(margin == 0 for margin in margins), max(margins)
    distinct = len(set(reports["ours"][0]["ids"]))
    print(f"best ids: {agreeing} of {len(margins)} agree ({distinct} different ones), "
          f"the others are behind by at most {worst:.3g} in logits")
    same = worst <= tolerance
    fast = times >= TIMES_TRANSFORMERS or share >= SHARE_OF_PROBE
    print(f"{TIMES_TRANSFORMERS} times transformers: {'yes' if times >= TIMES_TRANSFORMERS else 'no'}; "
          f"{SHARE_OF_PROBE:.0%} of the probe: {'yes' if share >= SHARE_OF_PROBE else 'no'}; "
          f"same ids: {'yes' if same else 'no'}")
    return 0 if same and fast else 1


if __name__ == "__main__":
    sys.exit(main())
