#!/usr/bin/env python3
"""The README's worked examples are true: its commands are run, and what they print is what the README shows.

  readme_examples.py BUILD_DIR          compares; exit 1 and a diff where they differ
  readme_examples.py BUILD_DIR --fix    writes what they print into the README

A block of the README that starts with "$ " is a list of commands, each followed by its output. They run in a folder
that holds the README's dot.cu; build/bin stands for BUILD_DIR/bin. What a broken model writes may depend on the CPU, so
of the command that follows `qgpu corrupt` only the failure is compared.
"""

import difflib
import os
import re
import subprocess
import sys
import tempfile

README = os.path.join(os.path.dirname(__file__), "..", "..", "README.md")
CORRUPT = re.compile(r"(corrupt --layer \d+ --index) (\d+)")


def run(command, build, folder):
    """Exit code, and standard output followed by standard error."""
    command = "set -o pipefail; " + command.replace("build/bin/", build + "/bin/")
    env = {name: value for name, value in os.environ.items() if not name.startswith("QGPU_")}
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=env, timeout=120, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def run_block(block, build, folder, fix):
    """The block with every command's output as it is now."""
    shown = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M)
    commands = [command for command, _ in shown]
    result, broken = "", False
    for position, (command, output_shown) in enumerate(shown):
        if CORRUPT.search(command):
            # The weight must be one that the next command depends on.
            index = int(CORRUPT.search(command).group(2))
            while run(command, build, folder)[0] == 0 and run(commands[position + 1], build, folder)[0] == 0:
                if not fix:
                    sys.exit(f"the README's corrupted weight changes nothing: {command}\nrefresh it with --fix")
                index += 101
                command = CORRUPT.sub(rf"\1 {index}", command)
        code, output = run(command, build, folder)
        if code != (1 if broken else 0):
            sys.exit(f"exit {code}: {command}\n{output}")
        if broken and "the model and the reference disagree" in output and not fix:
            output = output_shown
        broken = "qgpu corrupt" in command
        result += f"$ {command}\n{output}"
    return result


def main():
    build, fix = os.path.abspath(sys.argv[1]), "--fix" in sys.argv
    with open(README, encoding="utf-8") as file:
        readme = file.read()
    kernel = re.search(r"```cuda\n(.*?)```", readme, re.S).group(1)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "dot.cu"), "w", encoding="utf-8") as file:
            file.write(kernel)
        ran = 0

        def refresh(match):
            nonlocal ran
            ran += 1
            return "```\n" + run_block(match.group(1), build, folder, fix) + "```\n"

        fresh = re.sub(r"```\n(\$ .*?)```\n", refresh, readme, flags=re.S)
    if ran < 3:
        sys.exit(f"only {ran} examples found in the README")
    if fix:
        with open(README, "w", encoding="utf-8") as file:
            file.write(fresh)
    elif fresh != readme:
        diff = difflib.unified_diff(readme.splitlines(), fresh.splitlines(), "README.md", "what it prints", lineterm="")
        sys.exit("\n".join(diff) + f"\nrefresh it: {__file__} {sys.argv[1]} --fix")


if __name__ == "__main__":
    main()
