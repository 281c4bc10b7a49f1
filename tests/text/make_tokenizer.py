"""Makes a tokenizer of the form of Qwen3.5's (its pattern, normalizer, special tokens), trained on corpus.txt: no
vocabulary of others is needed. make_tokenizer.py DIRECTORY writes tokenizer.json there."""
import json
import pathlib
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

# Qwen3.5's, as transformers has it.
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"
           r"\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
           "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
           "<|image_pad|>", "<|video_pad|>"]
NOT_SPECIAL = ["<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>",
               "<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>"]
CORPUS = pathlib.Path(__file__).parent / "corpus.txt"


def train(pattern=PATTERN, vocabulary=2000, texts=None):
    tokenizer = Tokenizer(models.BPE(dropout=None, unk_token=None, continuing_subword_prefix="", end_of_word_suffix="",
                                     fuse_unk=False, byte_fallback=False))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, show_progress=False, min_frequency=1,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    texts = texts or CORPUS.read_text(encoding="utf-8").splitlines(keepends=True) * 2
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in SPECIAL])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in NOT_SPECIAL])
    return tokenizer


def as_json(tokenizer):
    return json.loads(tokenizer.to_str())


def with_string_merges(document):
    """The older form of the same file: a merge is a string with a space."""
    document = json.loads(json.dumps(document))
    document["model"]["merges"] = [" ".join(merge) for merge in document["model"]["merges"]]
    return document


def write(directory, document):
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "tokenizer.json").write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1], as_json(train()))
