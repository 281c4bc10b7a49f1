"""What the comparisons with `tokenizers` and Jinja2 share: skipping without them, asking text_tool."""
import json
import subprocess
import sys

SKIPPED = 77  # ctest shows it as "Skipped"
TOOL = sys.argv[1]

try:
    import tokenizers  # noqa: F401
    import jinja2  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(SKIPPED)


def ask(arguments, requests):
    """The answers of text_tool, in order; an error of the tool itself is one answer."""
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run([TOOL, *map(str, arguments)], input=lines.encode(), stdout=subprocess.PIPE, timeout=120)
    assert done.returncode in (0, 2), f"text_tool ended with {done.returncode}"
    answers = [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]
    assert done.returncode == 2 or len(answers) == len(requests), (len(answers), len(requests))
    return answers


def same(ours, theirs, what):
    """Compares lists; shows the first difference."""
    assert len(ours) == len(theirs), f"{what}: {len(ours)} against {len(theirs)}"
    for index, (our, their) in enumerate(zip(ours, theirs)):
        assert our == their, f"{what}: number {index}: ours {our!r}, theirs {their!r}"
