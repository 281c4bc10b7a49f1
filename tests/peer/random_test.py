"""Logits against transformers on random checkpoints: shape, weights, number types, files, config as a seed draws them.

Arguments: peer_tool. QGPU_RANDOM_CHECKPOINTS (6) and QGPU_RANDOM_SEED (1) say how many and from which seed on; each
checkpoint is drawn from its own seed, which is printed, so that one alone can be repeated.

Some of them leave float32 less than the tolerance: a small norm epsilon and a state that is nearly forgotten magnify
its rounding a thousandfold. Where a difference exceeds the tolerance, transformers runs once more in float64, and ours
must be as close to that as transformers in float32 is, whole or step by step."""
import contextlib
import json
import os
import pathlib
import random
import tempfile

import peer
from peer import AutoModelForCausalLM, torch
from safetensors.torch import save_file

TOLERANCE = 2e-4
LENGTHS = [1, 2, 3, 63, 64, 65, 127, 128, 129, 200, 257]  # the recurrence runs in chunks of 64
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def draw_layers(rng, config):
    """layer_types, an interval, or the default of every fourth."""
    config["num_hidden_layers"] = layers = rng.randint(1, 6)
    how = rng.choice(["types", "types", "interval", "default"])
    if how == "types":
        config["layer_types"] = [rng.choice(["linear_attention", "full_attention"]) for _ in range(layers)]
    if how == "interval":
        config["full_attention_interval"] = rng.randint(1, 4)
        if rng.random() < 0.5:
            config["layer_types"] = None


def draw_rotary(rng, config):
    """Theta and the rotary share in one of the places that they are found in."""
    head_dim = config["head_dim"]
    shares = [width / head_dim for width in range(2, head_dim + 1, 2) if int(head_dim * (width / head_dim)) == width]
    theta, share = rng.choice([1e2, 1e4, 123456, 1e7]), rng.choice(shares)
    if int(head_dim * 0.25) % 2 == 0 and int(head_dim * 0.25) > 0 and rng.random() < 0.4:
        share = None  # the default of a quarter
    settings = {"rope_theta": theta} | ({} if share is None else {"partial_rotary_factor": share})
    where = rng.choice(["rope_parameters", "rope_parameters", "rope_scaling", "flat", "divided", "both", "none"])
    if where == "none" and (share is None or head_dim % 8 == 0):
        return  # theta 10000 on a quarter
    if where in ("rope_parameters", "rope_scaling", "none"):
        name = "rope_parameters" if where == "none" else where
        config[name] = settings | {rng.choice(["rope_type", "type"]): "default"}
        if rng.random() < 0.5:
            config[name] |= {"mrope_section": [2, 1, 1], "mrope_interleaved": True}
        if rng.random() < 0.3:
            config |= {"rope_theta": 3e3, "partial_rotary_factor": 1.0} if share is not None else {"rope_theta": 3e3}
    elif where == "flat":
        config |= settings | {"rope_scaling": None}
    elif where == "divided":
        config["rope_parameters"] = {"rope_type": "default", "rope_theta": theta}
        config |= {"partial_rotary_factor": share} if share is not None else {}
    else:
        config["rope_scaling"] = settings | {"rope_type": "default"}
        config["rope_parameters"] = {"rope_type": "default", "rope_theta": 77.0, "partial_rotary_factor": 1.0}


def draw_config(rng):
    """The text part of a config.json."""
    kv_heads, key_heads = rng.randint(1, 3), rng.randint(1, 3)
    config = {
        "model_type": "qwen3_5_text",
        "vocab_size": rng.choice([17, 101, 300, 513, 1000]),
        "hidden_size": rng.choice([24, 37, 40, 52, 64, 72, 96, 130]),
        "intermediate_size": rng.randint(5, 150),
        "num_attention_heads": kv_heads * rng.randint(1, 4),
        "num_key_value_heads": kv_heads,
        "head_dim": rng.choice([8, 10, 16, 20, 32, 40, 64, 128]),
        "linear_num_key_heads": key_heads,
        "linear_num_value_heads": key_heads * rng.randint(1, 4),
        "linear_key_head_dim": rng.choice([4, 8, 12, 24, 32, 40, 64, 128, 144]),
        "linear_value_head_dim": rng.choice([4, 8, 12, 24, 32, 40, 64, 128, 144]),
        "tie_word_embeddings": rng.random() < 0.5,
    }
    if rng.random() < 0.8:
        config["linear_conv_kernel_dim"] = rng.choice([1, 2, 3, 4, 5, 8])
    if rng.random() < 0.8:
        config["rms_norm_eps"] = rng.choice([1e-7, 1e-6, 1e-5, 1e-3])
    draw_layers(rng, config)
    draw_rotary(rng, config)
    for name, value in [("hidden_act", "silu"), ("attention_bias", False), ("attn_output_gate", True),
                        ("dtype", "float16"), ("mamba_ssm_dtype", "float32"), ("mtp_num_hidden_layers", 1),
                        ("pad_token_id", 3), ("eos_token_id", [1, 2]), ("max_position_embeddings", 2048),
                        ("use_cache", False), ("attention_dropout", 0.5), ("quantization_config", None)]:
        if rng.random() < 0.3:
            config[name] = value
    return config


def draw_weights(rng, model):
    """Weights whose every term shows in the logits; decays and write strengths up to their ends."""
    torch.manual_seed(rng.getrandbits(32))
    scale = rng.choice([0.5, 1.0, 1.0, 2.0])
    steep = rng.random() < 0.3  # decays of exp(-1000) and of 1 - 1e-7
    for name, weight in model.named_parameters():
        if name.endswith("A_log"):
            weight.uniform_(*((-9, 7) if steep else (-1.5, 1.5)))
        elif name.endswith("dt_bias"):
            weight.normal_(-1, 8 if steep else 1)
        elif name.endswith("linear_attn.norm.weight"):
            weight.normal_(1, 0.2)
        elif name.endswith("norm.weight"):
            weight.normal_(0, 0.2)
        elif name.endswith("conv1d.weight"):
            weight.normal_(0, 0.5)
        elif name.endswith(("in_proj_a.weight", "in_proj_b.weight")) and steep:
            weight.normal_(0, 10 * weight.shape[-1] ** -0.5)
        elif name.endswith(("lm_head.weight", "embed_tokens.weight")):
            weight.normal_(0, weight.shape[-1] ** -0.5)
        else:
            weight.normal_(0, scale * weight.shape[-1] ** -0.5)
    return f"weights x {scale}{', steep decays' if steep else ''}"


def write_checkpoint(rng, directory, text, model):
    """config.json and files in one of the forms in circulation; what form in words."""
    nested, nested_names = rng.random() < 0.5, rng.random() < 0.5
    stored = rng.choice(["float32", "bfloat16", "float16", "mixed"])
    tensors = {}
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and text["tie_word_embeddings"] and rng.random() < 0.5:
            continue  # or the same values a second time
        if nested_names and name.startswith("model."):
            name = "model.language_model." + name.removeprefix("model.")
        tensors[name] = weight
    types = {name: TYPES[rng.choice(list(TYPES)) if stored == "mixed" else stored] for name in tensors}
    embedding = next(name for name in types if name.endswith("embed_tokens.weight"))
    if text["tie_word_embeddings"] and "lm_head.weight" in types:
        types["lm_head.weight"] = types[embedding]
    tensors = {name: weight.to(types[name]).clone().contiguous() for name, weight in tensors.items()}
    if rng.random() < 0.5:
        tensors |= {"model.visual.blocks.0.norm1.weight": torch.zeros(7, dtype=torch.bfloat16),
                    "mtp.layers.0.mlp.up_proj.weight": torch.ones(3, 5), "mtp.norm.weight": torch.zeros(0),
                    "model.visual.index": torch.arange(4)}
    shards = rng.choice([1, 1, 2, 3, 5])
    metadata = {"format": "pt"} if rng.random() < 0.7 else None
    if shards == 1 and rng.random() < 0.8:
        save_file(tensors, directory / "model.safetensors", metadata)
    else:
        files = [f"model-{i + 1:05}-of-{shards:05}.safetensors" for i in range(shards)]
        placed = {name: rng.choice(files) for name in tensors}
        for file in set(placed.values()):
            save_file({name: tensors[name] for name in tensors if placed[name] == file}, directory / file, metadata)
        (directory / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": placed}))
    config = text
    if nested:
        inner = dict(text)
        if rng.random() < 0.3:
            del inner["model_type"]
        config = {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "text_config": inner,
                  "vision_config": {"model_type": "qwen3_5", "hidden_size": 8}, "hidden_size": 9, "rope_theta": 5.0,
                  "tie_word_embeddings": rng.random() < 0.5}
    (directory / "config.json").write_text(json.dumps(config))
    return (f"{'nested' if nested else 'flat'} config, {'model.language_model.' if nested_names else 'model.'} names, "
            f"{stored}, {len(list(directory.glob('*.safetensors')))} files")


@contextlib.contextmanager
def in_float64(model):
    """The model with float64 wherever its code says float32."""
    float32, to_float = torch.float32, torch.Tensor.float
    torch.float32, torch.Tensor.float = torch.float64, torch.Tensor.double
    try:
        yield model.double()
    finally:
        torch.float32, torch.Tensor.float = float32, to_float
        model.float()


def logits_by_steps(model, ids):
    cache, rows = None, []
    for token in ids:
        out = model(torch.tensor([[token]]), cache=cache, use_cache=True)
        cache = out.cache
        rows.append(out.logits[0, 0])
    return torch.stack(rows)


class Rounding:
    """Root mean square errors of float32 logits against float64, on one sequence, and what ours may be."""

    def __init__(self, model, ids, expected):
        has_steps = "full_attention" in model.config.layer_types  # transformers' cache needs such a layer
        by_steps = logits_by_steps(model, ids) if has_steps else expected
        with in_float64(model):
            self.exact = model(torch.tensor([ids]), use_cache=False).logits[0]
            assert self.exact.dtype == torch.float64
        self.theirs = max(self.error(expected), self.error(by_steps))
        self.limit = (4 if has_steps else 16) * self.theirs

    def error(self, logits):
        return (logits - self.exact).square().mean().sqrt().item()


def check(seed):
    rng = random.Random(seed)
    text = draw_config(rng)
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as scratch:
        directory = pathlib.Path(directory)
        # config.json first as transformers reads it, which makes the model to be filled.
        (directory / "config.json").write_text(json.dumps(text))
        model = AutoModelForCausalLM.from_config(peer.transformers.AutoConfig.from_pretrained(directory)).float().eval()
        weights = draw_weights(rng, model)
        form = write_checkpoint(rng, directory, text, model)
        model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
        sequences = [[rng.randrange(text["vocab_size"]) for _ in range(length)] for length in LENGTHS]
        sequences[-1] = [sequences[-1][0]] * LENGTHS[-1]  # one id over and over
        mixed = ",".join(str(rng.choice([1, 2, 5, 63, 64, 65])) for _ in range(8))
        expected = [model(torch.tensor([ids]), use_cache=False).logits[0] for ids in sequences]
        ours = peer.our_logits(directory, sequences, "float32", ["prefill", "step", mixed], scratch)
    worst, notes, roundings = 0.0, "", {}
    for (i, mode), logits in ours.items():
        assert logits.isfinite().all() and expected[i].isfinite().all(), f"seed {seed}: logits are no numbers"
        difference = (logits - expected[i]).abs().max().item()
        where = f"seed {seed}: {LENGTHS[i]} ids, {mode}"
        what = f"{weights}; {form}\n{json.dumps(text)}"
        if difference > TOLERANCE:
            if i not in roundings:
                roundings[i] = Rounding(model, sequences[i], expected[i])
            theirs, own = roundings[i].theirs, roundings[i].error(logits)
            assert own <= roundings[i].limit, f"{where}: off by {difference}; errors {own}, transformers' {theirs}\n{what}"
            notes = f" (float32 itself is that far off: errors {own:.0e}, transformers' {theirs:.0e})"
        worst = max(worst, difference)
        top = expected[i].topk(2, dim=-1).values
        clear = top[:, 0] - top[:, 1] > (TOLERANCE if difference <= TOLERANCE else 2 * difference)
        assert torch.equal(logits.argmax(-1)[clear], expected[i].argmax(-1)[clear]), f"{where}: top-1 differs\n{what}"
    assert max(logits.std().item() for logits in expected) > 0.1, f"seed {seed}: logits too flat to show a mistake"
    print(f"seed {seed}: {form}; {weights}: worst difference {worst:.1e}{notes}", flush=True)


def main():
    torch.set_num_threads(1)  # small tensors
    first, count = (int(os.environ.get(name, default)) for name, default in
                    (("QGPU_RANDOM_SEED", 1), ("QGPU_RANDOM_CHECKPOINTS", 6)))
    for seed in range(first, first + count):
        check(seed)


if __name__ == "__main__":
    main()
