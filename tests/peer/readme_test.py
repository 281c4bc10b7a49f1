"""The README's lines of Python load the dense export in transformers and print the launch that the README shows.

Arguments: peer_tool, qgpu. Needs 2 GB of disk and 4 GB of memory."""
import pathlib
import re
import subprocess
import sys
import tempfile

import peer  # skips without transformers

README = pathlib.Path(__file__).parents[2] / "README.md"


def main():
    qgpu = pathlib.Path(sys.argv[2]).resolve()
    readme = README.read_text(encoding="utf-8")
    kernel = re.search(r"```cuda\n(.*?)```", readme, re.S).group(1)
    shown = re.search(r"```sh\n([^`]*export --dense[^`]*)```\n\n```python\n(.*?)```\n.*?```\n(<.*?)```", readme, re.S)
    commands, python, output = shown.groups()
    assert len(python.strip().splitlines()) == 5
    with tempfile.TemporaryDirectory() as scratch:
        pathlib.Path(scratch, "dot.cu").write_text(kernel)
        subprocess.run(["bash", "-ec", commands.replace("build/bin/qgpu", str(qgpu))], cwd=scratch, check=True)
        printed = subprocess.run([sys.executable, "-c", python], cwd=scratch, check=True, capture_output=True, text=True)
    assert printed.stdout.strip() == output.replace("\n", ""), f"printed: {printed.stdout}\nthe README shows: {output}"


if __name__ == "__main__":
    main()
