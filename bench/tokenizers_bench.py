#!/usr/bin/env python3
"""Times our tokenizer and the public `tokenizers` library on the same texts with the same tokenizer.json, in interleaved
rounds, one thread each; medians of the time on the CPU. Other ids or another text is an error.

    .venv/bin/python bench/tokenizers_bench.py --program build/bin/tokenizer_bench"""
import argparse
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "text"))

import make_tokenizer  # noqa: E402
import numpy  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402


def texts(size):
    """About `size` bytes each: the project's own sources; many scripts; one piece without an end; white space."""
    names = subprocess.run(["git", "ls-files", "*.cc", "*.h", "*.md", "*.py"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    sources = "".join((ROOT / name).read_text(encoding="utf-8", errors="replace") for name in names.stdout.decode().split())
    corpus = make_tokenizer.CORPUS.read_text(encoding="utf-8")
    yield "sources", (sources * (1 + size // len(sources)))[:size]
    yield "many scripts", corpus * (size // len(corpus.encode()))
    yield "one long word", "kernel" * (size // 6)
    yield "white space", ("    \n\t  " * (size // 8)) + "x"


def sha(data):
    return hashlib.sha256(data).hexdigest()


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--program", required=True)
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--bytes", type=int, default=1 << 20)
    arguments.add_argument("--vocabulary", type=int, default=30000)
    options = arguments.parse_args()
    cases = dict(texts(options.bytes))
    tokenizer = make_tokenizer.train(vocabulary=options.vocabulary, texts=[cases["sources"], cases["many scripts"]])
    print(f"{'text':16} {'MB':>5} {'tokens':>8} {'ours encode':>12} {'theirs':>8} {'ratio':>6} {'ours decode':>12} {'theirs':>8}   (MB/s)")
    with tempfile.TemporaryDirectory() as scratch:
        make_tokenizer.write(scratch, make_tokenizer.as_json(tokenizer))
        reference = Tokenizer.from_file(str(pathlib.Path(scratch, "tokenizer.json")))
        path = pathlib.Path(scratch, "text")
        for name, text in cases.items():
            path.write_bytes(text.encode())
            megabytes = len(text.encode()) / 1e6
            times = {"encode": [], "decode": [], "their encode": [], "their decode": []}
            for _ in range(options.rounds):
                run = subprocess.run([options.program, scratch, path, "1"], stdout=subprocess.PIPE, check=True)
                report = json.loads(run.stdout)
                times["encode"].append(report["encode_s"][0])
                times["decode"].append(report["decode_s"][0])
                fresh = Tokenizer.from_file(str(pathlib.Path(scratch, "tokenizer.json")))  # with an empty cache, as ours
                start = time.process_time()
                ids = fresh.encode(text).ids
                middle = time.process_time()
                back = fresh.decode(ids, skip_special_tokens=False)
                times["their encode"].append(middle - start)
                times["their decode"].append(time.process_time() - middle)
            assert sha(numpy.array(ids, dtype=numpy.int32).tobytes()) == report["ids_sha256"], f"{name}: other ids"
            assert sha(back.encode()) == report["text_sha256"], f"{name}: another text"
            ours, theirs, decode, their_decode = (megabytes / max(statistics.median(times[key]), 1e-6)
                                                  for key in ("encode", "their encode", "decode", "their decode"))
            print(f"{name:16} {megabytes:5.2f} {len(ids):8} {ours:12.1f} {theirs:8.1f} {ours / theirs:6.1f} {decode:12.0f} {their_decode:8.0f}")


if __name__ == "__main__":
    main()
