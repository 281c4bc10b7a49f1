"""Ids, pieces and texts identical to those of the public `tokenizers` library, for the same tokenizer.json.

tokenizers_test.py TEXT_TOOL [SEED]"""
import copy
import pathlib
import random
import sys
import tempfile
import unicodedata

import make_tokenizer
from text_peer import ask, same
from tokenizers import Regex, Tokenizer, normalizers
from tokenizers.pre_tokenizers import Split

SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 20260311
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
SPACES = [" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u2003", "\u3000", "\u2028", "\x0b", "\x85", "\u180e", "\u200b"]


def check_classes():
    """Every code point is of the class that the library says it is."""
    categories = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn".split()
    patterns = ["|".join(r"\p{%s}+" % category for category in categories)]
    patterns += [r"\p{%s}+" % c for c in "LMNPSZC"] + [r"\s+", r"\d+", r"[^\s\p{L}\p{M}\p{N}]+", r"\P{L}+"]
    blocks = ["".join(map(chr, CODE_POINTS[i:i + 65536])) for i in range(0, len(CODE_POINTS), 65536)]
    for pattern in patterns:
        ours = [answer["pieces"] for answer in ask(["split", pattern], [{"text": block} for block in blocks])]
        split = Split(Regex(pattern), "isolated")
        same(ours, [[part for part, _ in split.pre_tokenize_str(block)] for block in blocks], f"class {pattern}")


def check_case():
    """(?i:..) takes the same characters for a letter."""
    pattern = r"(?i:'s|'t|'re|'ve|'m|'ll|'d|k)"
    texts = ["'" + chr(c) + "e" + chr(c) + chr(c) for c in CODE_POINTS if c < 0x3000 or 0xA640 <= c < 0xAC00 or 0xFB00 <= c < 0xFB50
             or 0xFF00 <= c < 0xFF60 or 0x10400 <= c < 0x10500]
    ours = [answer["pieces"] for answer in ask(["split", pattern], [{"text": text} for text in texts])]
    split = Split(Regex(pattern), "isolated")
    same(ours, [[part for part, _ in split.pre_tokenize_str(text)] for text in texts], "case")


def check_normalisation(dice):
    nfc = normalizers.NFC()
    nfd = normalizers.NFD()
    texts = ["".join(map(chr, CODE_POINTS[i:i + 4096])) for i in range(0, len(CODE_POINTS), 4096)]
    texts += [nfd.normalize_str(text) for text in texts[:64]]
    # Every character behind a letter and between marks of the lowest and of the highest class: finds its own class.
    texts += ["".join("a" + chr(c) + "\u0334a\u0345" + chr(c) + "\u0301" for c in CODE_POINTS[i:i + 4096])
              for i in range(0, 0x20000, 4096)]
    composing = [c for c in CODE_POINTS if len(nfd.normalize_str(chr(c))) > 1]
    for _ in range(300):
        parts = []
        for _ in range(dice.randrange(1, 40)):
            c = nfd.normalize_str(chr(dice.choice(composing)))
            parts.append(c[:dice.randrange(1, len(c) + 1)] if dice.random() < 0.5 else c)
            if dice.random() < 0.3:
                parts.append(chr(dice.choice((0x300, 0x327, 0x323, 0x345, 0x5B0, 0x93C, 0x3099, 0x1161, 0x11A8, 0x16129))))
        texts.append("".join(parts))
    marks = [chr(c) for c in CODE_POINTS if c >= 0x300 and nfd.normalize_str("a" + chr(c) + "\u0334") != "a" + chr(c) + "\u0334"]
    texts += ["\u1eadx"[:dice.randrange(3)] + "".join(dice.choice(marks) for _ in range(dice.choice((60, 70, 500, 5000)))) + "e\u0301"
              for _ in range(60)]
    ours = [answer["text"] for answer in ask(["nfc"], [{"text": text} for text in texts])]
    same(ours, [nfc.normalize_str(text) for text in texts], "NFC")


def samples(dice):
    """At least 2,000 strings: every script, marks, white space, control characters, numbers, special tokens."""
    corpus = make_tokenizer.CORPUS.read_text(encoding="utf-8")
    texts = ["", " ", "\n", corpus, corpus.replace("\n", "\r\n"), " " * 5000, "\n" * 3000, "a" * 5000, "ab" * 4000,
             "\u4e2d" * 3000, "\x00", "\x00\x01\x02\x7f\x80\x9f", "a\u0301", "\u0301", "\ufeffa", "\U0010ffff", "\ufffd",
             " \n \r\n\t x", "can't CAN'T 'S 'RE've \u02bcs '\u017f", "x" * 200 + " " * 200 + "\r\n" * 100]
    texts += corpus.splitlines(keepends=True)
    for start in range(0, 0x110000, 512):  # every plane, the newest scripts as well
        block = [c for c in range(start, start + 512) if not 0xD800 <= c < 0xE000]
        if block and (start < 0x34000 or start >= 0xE0000 and start % 0x4000 == 0):
            texts.append("".join(map(chr, block)))
            texts.append("".join(dice.choice((" ", "", "", "\u0301", "\n")) + chr(dice.choice(block)) for _ in range(60)))
    letters = [c for c in range(0x80, 0x32000) if chr(c).isalpha()]
    added = make_tokenizer.SPECIAL + make_tokenizer.NOT_SPECIAL
    pieces = [lambda: chr(dice.choice(letters)), lambda: dice.choice(SPACES) * dice.choice((1, 1, 2, 7)),
              lambda: chr(dice.randrange(0x20, 0x7f)), lambda: chr(dice.randrange(0x20)),
              lambda: chr(dice.choice((0x300, 0x301, 0x308, 0x327, 0x345, 0x3099, 0x200d, 0xfe0f, 0x1f3fd, 0x11930))),
              lambda: dice.choice(added), lambda: dice.choice(added)[:dice.randrange(1, 9)],
              lambda: str(dice.randrange(10 ** dice.randrange(1, 20))), lambda: chr(dice.choice(CODE_POINTS)),
              lambda: dice.choice(("'s", "'Re", "'LL", "'\u017f", "\u2019t", "the", " The", "kernel", "i", "=", "!=", "...\n")),
              lambda: corpus[(at := dice.randrange(len(corpus))):at + dice.randrange(1, 30)]]
    while len(texts) < 3500:
        chosen = dice.sample(pieces, dice.randrange(1, len(pieces)))
        texts.append("".join(dice.choice(chosen)() for _ in range(dice.randrange(1, 60))))
    return texts


def check_coverage(texts):
    """That the strings have what they are for."""
    assert len(set(texts)) >= 2000
    characters = set("".join(texts))
    letters = [chr(c) for c in CODE_POINTS if unicodedata.category(chr(c))[0] == "L"]
    assert characters.issuperset(letters), "letters are missing"
    assert {ord(c) >> 16 for c in letters} == {0, 1, 2, 3}, "a plane has letters now"
    newest = range(0x10D40, 0x10D66), range(0x16D40, 0x16D6D), range(0x11BC0, 0x11BE1), range(0x105C0, 0x105F4)
    assert all(chr(c) in characters for script in newest for c in script)  # Garay, Kirat Rai, Sunuwar, Todhri
    marks = [chr(c) for c in CODE_POINTS if unicodedata.combining(chr(c))]
    assert characters.issuperset(marks) and any("a\u0301" in text for text in texts)
    assert characters.issuperset(map(chr, [*range(0x20), *range(0x7F, 0xA0)])), "control characters are missing"
    for needed in ["\r\n", " " * 1000, *make_tokenizer.SPECIAL, *make_tokenizer.NOT_SPECIAL]:
        assert any(needed in text and len(text) > len(needed) for text in texts), needed


def check_ids(document, texts, name, scratch):
    make_tokenizer.write(scratch, document)
    reference = Tokenizer.from_file(str(pathlib.Path(scratch, "tokenizer.json")))
    answers = ask(["tokenizer", scratch], [{"text": text} for text in texts])
    assert "error" not in answers[0], answers[0]
    ids = [encoding.ids for encoding in reference.encode_batch(texts)]
    for text, answer, theirs in zip(texts, answers, ids):
        assert answer["ids"] == theirs, f"{name}: {text!r}: ours {answer['ids']}, theirs {theirs}"
    reference.encode_special_tokens = True
    answers = ask(["tokenizer", scratch], [{"text": text, "as_text": True} for text in texts])
    same([a["ids"] for a in answers], [e.ids for e in reference.encode_batch(texts)], f"{name}, special tokens as text")
    return reference, ids


def check_texts(reference, ids, dice, name, scratch):
    """Decoding: what was encoded, and random ids, whose bytes are mostly no UTF-8."""
    size = reference.get_vocab_size()
    ids = ids + [[dice.randrange(size) for _ in range(dice.randrange(1, 30))] for _ in range(2000)]
    ids += [[dice.randrange(256) for _ in range(dice.randrange(1, 12))] for _ in range(2000)]
    for skip in (False, True):
        answers = ask(["tokenizer", scratch], [{"ids": one, "skip": skip} for one in ids])
        theirs = reference.decode_batch(ids, skip_special_tokens=skip)
        same([answer["text"] for answer in answers], theirs, f"{name}, decoded")
        same([answer["stream"] for answer in answers], theirs, f"{name}, streamed")


def token(identifier, content, **flags):
    return {"id": identifier, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": False, **flags}


def variants(document):
    """Files of other forms that must give what the library gives."""
    yield "string merges", make_tokenizer.with_string_merges(document)
    whole = copy.deepcopy(document)
    whole["model"]["ignore_merges"] = True
    whole["added_tokens"] = [dict(t, id=t["id"] + 1) for t in whole["added_tokens"]]
    whole["model"]["vocab"]["\u0120isnthe"] = len(document["model"]["vocab"])  # no merges lead to it
    yield "ignore_merges", whole
    qwen2 = copy.deepcopy(document)
    qwen2["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    yield "Qwen2's pattern", qwen2
    gpt2 = copy.deepcopy(document)
    gpt2["pre_tokenizer"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    gpt2["normalizer"] = None
    yield "GPT-2's pattern, no normalizer", gpt2
    llama3 = copy.deepcopy(document)
    llama3["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    yield "Llama 3's pattern", llama3
    plain = copy.deepcopy(document)
    plain["pre_tokenizer"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    yield "no pattern", plain
    two = copy.deepcopy(document)
    two["pre_tokenizer"]["pretokenizers"].insert(0, {"type": "Split", "pattern": {"Regex": r"\p{Nd}{1,2}"},
                                                     "behavior": "Isolated", "invert": False})
    yield "two patterns", two
    flags = copy.deepcopy(document)
    start = 1 + max(t["id"] for t in flags["added_tokens"])
    flags["added_tokens"] += [
        token(start, "kern", single_word=True), token(start + 1, "<l>", lstrip=True), token(start + 2, "<r>", rstrip=True),
        token(start + 3, "<lr>", lstrip=True, rstrip=True, special=True), token(start + 4, "\u00e9t\u00e9", normalized=True),
        token(start + 5, "A\u030a", normalized=True), token(start + 6, "<l><r>"), token(start + 7, "<l"),
        token(start + 8, "a b", normalized=True, single_word=True), token(start + 9, "\u00e9!"), token(start + 10, "e\u0301.")]
    yield "flags of added tokens", flags


def flag_texts(dice):
    parts = ["kern", "kernel", " kern ", "<l>", "<r>", "<lr>", "<l", "<l><r>", "\u00e9t\u00e9", "e\u0301te\u0301", "\u00c5", "A\u030a",
             "\u212b", "a b", "\u00e9!", "e\u0301!", "e\u0301.", " ", "  ", "\n", "\u00a0", "\u3000", "x", "_", " isnthe", "\u0301", "\U00010d40",
             "\U0001e5d0", "-", "\u200d", "<|im_end|>", "<think>"]
    return ["".join(dice.choice(parts) for _ in range(dice.randrange(1, 12))) for _ in range(800)]


def check_single_word(scratch, document):
    """Which characters touch a word, for every code point."""
    document = copy.deepcopy(document)
    start = 1 + max(t["id"] for t in document["added_tokens"])
    document["added_tokens"] += [token(start, "<w>", single_word=True)]
    make_tokenizer.write(scratch, document)
    reference = Tokenizer.from_file(str(pathlib.Path(scratch, "tokenizer.json")))
    reference.normalizer = None
    points = [c for c in CODE_POINTS if c < 0x34000 or 0xE0000 <= c < 0xE0200]
    theirs = [c for c, e in zip(points, reference.encode_batch(["<w>" + chr(c) for c in points])) if start not in e.ids]
    answers = ask(["words"], [{"first": 0, "last": 0xD7FF}, {"first": 0xE000, "last": 0x33FFF}, {"first": 0xE0000, "last": 0xE01FF}])
    same([c for answer in answers for c in answer["word"]], theirs, "word characters")
    same([c for answer in answers for c in answer["space"]], [c for c in points if c not in range(0x1C, 0x20) and chr(c).isspace()],
         "white space")


def refused(document):
    """What is asked for and not done is refused with the field's name."""
    def changed(path, value):
        result = copy.deepcopy(document)
        *way, last = path
        place = result
        for step in way:
            place = place[step]
        place[last] = value
        return result

    split = ["pre_tokenizer", "pretokenizers", 0]
    yield "normalizer", changed(["normalizer"], {"type": "NFKC"})
    yield "pre_tokenizer", changed(["pre_tokenizer"], {"type": "Whitespace"})
    yield "pre_tokenizer.add_prefix_space", changed(["pre_tokenizer"], {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True})
    yield "pre_tokenizer.pretokenizers[0].behavior", changed(split + ["behavior"], "Removed")
    yield "pre_tokenizer.pretokenizers[0].invert", changed(split + ["invert"], True)
    yield "pre_tokenizer.pretokenizers[0].pattern.String", changed(split + ["pattern"], {"String": " "})
    yield "pre_tokenizer.pretokenizers[0].pattern.Regex", changed(split + ["pattern"], {"Regex": r"\w+"})
    yield "post_processor.type", changed(["post_processor"], {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}})
    yield "decoder.type", changed(["decoder"], {"type": "Metaspace"})
    yield "truncation", changed(["truncation"], {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0})
    yield "padding", changed(["padding"], {"strategy": {"Fixed": 8}})
    yield "model.type", changed(["model", "type"], "Unigram")
    yield "model.dropout", changed(["model", "dropout"], 0.1)
    yield "model.byte_fallback", changed(["model", "byte_fallback"], True)
    yield "model.continuing_subword_prefix", changed(["model", "continuing_subword_prefix"], "##")
    yield "model.end_of_word_suffix", changed(["model", "end_of_word_suffix"], "</w>")
    yield "model.novelty", changed(["model", "novelty"], 1)
    yield "novelty", changed(["novelty"], 1)
    yield "added_tokens", changed(["added_tokens", 3, "id"], 5000)
    yield "added_tokens[0].novelty", changed(["added_tokens", 0, "novelty"], 1)


def main():
    dice = random.Random(SEED)
    print(f"seed {SEED}")
    document = make_tokenizer.as_json(make_tokenizer.train())
    with tempfile.TemporaryDirectory() as scratch:
        texts = samples(dice)
        print(f"{len(texts)} strings, {sum(map(len, texts))} characters, {len(set(''.join(texts)))} different ones")
        check_coverage(texts)
        reference, ids = check_ids(document, texts, "Qwen3.5's form", scratch)
        check_texts(reference, ids, dice, "Qwen3.5's form", scratch)
        for name, variant in variants(document):
            reference, ids = check_ids(variant, texts[::7] + flag_texts(dice), name, scratch)
        check_texts(reference, ids, dice, name, scratch)
        check_single_word(scratch, document)
        for field, broken in refused(document):
            make_tokenizer.write(scratch, broken)
            (answer,) = ask(["tokenizer", scratch], [])
            assert f"tokenizer.json: {field}:" in answer["error"], (field, answer)
    check_classes()
    check_case()
    check_normalisation(dice)


if __name__ == "__main__":
    main()
