#!/usr/bin/env python3
"""What the lowering makes of the kernels, as files to be reviewed: machine blocks and trace of one launch of the kernels
that have a folder here, and a table of tokens and passes of every case of every suite, refusals included. A change of the
lowering or the protocol shows as a diff here.

  golden.py BUILD_DIR            compares; exit 1 and a diff where they differ
  golden.py BUILD_DIR --update   writes tests/golden/<kernel>/{blocks,trace}.txt and tests/golden/tokens.txt
"""

import difflib
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
SUITE = os.path.join(ROOT, "kernels", "suites", "kernels.json")


def arguments(launch):
    """The launch as qgpu's options."""
    options = []
    for argument in launch["arguments"]:
        value = ",".join(map(str, argument["words"])) if "words" in argument else str(argument["value"])
        options += ["--arg", f"{argument['name']}={value or 'zeros:0'}"]
    for shape in ("grid", "block"):
        options += [f"--{shape}", ",".join(map(str, launch[shape]))]
    return options + ["--dynamic-shared", str(launch.get("dynamic_shared_bytes", 0))]


def qgpu(build, command, source, launch, *more):
    done = subprocess.run([os.path.join(build, "bin", "qgpu"), command, source, *arguments(launch), *more],
                          cwd=os.path.join(ROOT, "kernels"), capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        sys.exit(f"qgpu {command} {source} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def stations(build):
    """Path below tests/golden -> content."""
    with open(SUITE, encoding="utf-8") as file:
        suite = json.load(file)
    table = subprocess.run([os.path.join(build, "tests", "token_table")], capture_output=True, text=True, timeout=600)
    if table.returncode != 0:
        sys.exit(f"token_table ended with {table.returncode}: {table.stderr}")
    files = {"tokens.txt": table.stdout}
    for kernel in suite["kernels"]:
        name, source, case = kernel["kernel"], kernel["source"], kernel["cases"][0]
        if not os.path.isdir(os.path.join(HERE, name)):
            continue
        files[f"{name}/blocks.txt"] = qgpu(build, "disasm", source, case["launch"])
        files[f"{name}/trace.txt"] = qgpu(build, "trace", source, case["launch"])
    return files


def main():
    build, update = os.path.abspath(sys.argv[1]), "--update" in sys.argv[2:]
    differs = False
    for path, content in stations(build).items():
        target = os.path.join(HERE, path)
        if update:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "w", encoding="utf-8") as file:
                file.write(content)
            continue
        golden = open(target, encoding="utf-8").read() if os.path.exists(target) else ""
        if golden != content:
            differs = True
            sys.stdout.writelines(difflib.unified_diff(golden.splitlines(True), content.splitlines(True),
                                                       f"tests/golden/{path}", "now"))
    if differs:
        sys.exit("golden files differ; if that is meant, review: tests/golden/golden.py BUILD_DIR --update")


if __name__ == "__main__":
    main()
