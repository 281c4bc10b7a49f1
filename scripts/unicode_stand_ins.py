#!/usr/bin/env python3
"""Writes model/text/unicode_stand_ins.inc: for every character whose class in the `tokenizers` library is not that of
Unicode 14 (PCRE2 10.42, Debian 12), a character of the right class that Unicode 14 has, as long in UTF-8.

    .venv/bin/python scripts/unicode_stand_ins.py > model/text/unicode_stand_ins.inc

The library's classes are found by asking it. Unicode 14's are those of Python 3.11. tests/peer/tokenizers_test.py
compares every code point."""
import sys
import unicodedata

import tokenizers
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn").split()
NEVER = {0x017F, 0x212A}  # fold to ASCII letters
# PCRE2's \\s has it, Unicode's White_Space and the library do not.
MONGOLIAN_VOWEL_SEPARATOR = 0x180E


def members(pattern):
    """The code points that the pattern matches, in the library."""
    split = Split(Regex(pattern), "removed")
    found = set()
    for start in range(0, len(CODE_POINTS), 2048):
        block = CODE_POINTS[start:start + 2048]
        kept = {ord(c) for part, _ in split.pre_tokenize_str("".join(map(chr, block))) for c in part}
        found.update(c for c in block if c not in kept)
    return found


def utf8_length(code_point):
    return len(chr(code_point).encode())


def main():
    if unicodedata.unidata_version != "14.0.0":
        sys.exit(f"needs Python 3.11 (Unicode 14), has Unicode {unicodedata.unidata_version}")
    library = {c: category for category in CATEGORIES for c in members(r"\p{%s}" % category)}
    assert len(library) == len(CODE_POINTS)
    unicode14 = {c: unicodedata.category(chr(c)) for c in CODE_POINTS}
    stand_ins = {}
    for c in CODE_POINTS:
        if c >= 0x80 and library[c] == unicode14[c] and c not in NEVER and c != MONGOLIAN_VOWEL_SEPARATOR:
            stand_ins.setdefault((library[c], utf8_length(c)), c)
    ranges = []
    for c in CODE_POINTS:
        if library[c] == unicode14[c] and c != MONGOLIAN_VOWEL_SEPARATOR:
            continue
        stand_in = stand_ins[library[c], utf8_length(c)]
        if ranges and ranges[-1][1] == c - 1 and ranges[-1][2] == stand_in:
            ranges[-1][1] = c
        else:
            ranges.append([c, c, stand_in])
    print(f"// Made by scripts/unicode_stand_ins.py from tokenizers {tokenizers.__version__}: first, last, stand-in. Do not edit.")
    for first, last, stand_in in ranges:
        print(f"{{0x{first:05x}, 0x{last:05x}, 0x{stand_in:05x}}},  // {library[first]}")


if __name__ == "__main__":
    main()
