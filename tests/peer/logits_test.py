"""Logits of our libtorch forward against transformers on random checkpoints: every position, prefill, steps, and mixed."""
import tempfile

import peer
from peer import torch

TOLERANCE = 2e-4
LENGTHS = [1, 63, 64, 65, 200]  # the recurrence runs in chunks of 64
MODES = ["prefill", "step"]

# name, config changes, how it is saved
SHAPES = [
    ("grouped, untied", dict(), dict()),
    ("tied", dict(tie_word_embeddings=True), dict()),
    ("equal head counts, 128 x 128", dict(linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=128,
                                          linear_value_head_dim=128), dict()),
    ("key and value sizes differ", dict(linear_key_head_dim=24, linear_value_head_dim=40), dict()),
    ("nested, vision and mtp tensors", dict(tie_word_embeddings=True, num_hidden_layers=8), dict(nested=True)),
    ("sharded, one kv head, odd widths", dict(hidden_size=72, intermediate_size=100, num_key_value_heads=1,
                                              head_dim=40), dict(shard_size="100KB")),
    ("full attention first, other eps", dict(layer_types=["full_attention", "linear_attention", "full_attention"],
                                             num_hidden_layers=3, rms_norm_eps=1e-5,
                                             rope_parameters={"rope_type": "default", "rope_theta": 1e4,
                                                              "partial_rotary_factor": 0.5}), dict()),
    ("four value heads a key head, stored in float16", dict(linear_num_key_heads=1, linear_num_value_heads=4,
                                                            linear_conv_kernel_dim=3), dict(dtype=torch.float16)),
]


def compare(name, expected, ours, mode):
    worst = (ours - expected).abs().max().item()
    assert worst <= TOLERANCE, f"{name}, {len(expected)} ids, {mode}: logits differ by {worst}"
    top = expected.topk(2, dim=-1).values
    clear = top[:, 0] - top[:, 1] > TOLERANCE
    assert torch.equal(ours.argmax(-1)[clear], expected.argmax(-1)[clear]), f"{name}, {mode}: top-1 differs"
    assert expected.std().item() > 0.3, f"{name}: logits too flat to show a mistake"
    return worst


def check_shape(seed, name, changes, how):
    how = dict(how)
    stored_type = how.pop("dtype", torch.float32)
    model = peer.random_model(peer.random_config(**changes), seed).to(stored_type)
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as scratch:
        peer.save(model, directory, **how)
        model = model.to(torch.float32)
        sequences = [torch.randint(0, 300, (length,)).tolist() for length in LENGTHS]
        expected = [model(torch.tensor([ids])).logits[0] for ids in sequences]
        modes = MODES + (["7,1,64,3"] if seed == 0 else [])  # and passes of other lengths
        ours = peer.our_logits(directory, sequences, "float32", modes, scratch)
        worst = max(compare(name, expected[i], logits, mode) for (i, mode), logits in ours.items())
    print(f"{name}: worst difference {worst:.1e}")


def check_half_types():
    """A 16-bit run rounds at the same places: as close to transformers in that type as that is to float32, or closer."""
    for type_name, dtype in (("bfloat16", torch.bfloat16), ("float16", torch.float16)):
        model = peer.random_model(peer.random_config(), 99)
        with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as scratch:
            peer.save(model.to(dtype), directory)
            ids = torch.randint(0, 300, (200,)).tolist()
            theirs = model(torch.tensor([ids])).logits[0].float()
            exact = model.to(torch.float32)(torch.tensor([ids])).logits[0]
            ours = peer.our_logits(directory, [ids], type_name, ["prefill", "step"], scratch)
        noise = (theirs - exact).abs().mean().item()
        for (_, mode), logits in ours.items():
            difference, own = (logits - theirs).abs().mean().item(), (logits - exact).abs().mean().item()
            print(f"{type_name}, {mode}: mean difference {difference:.1e}; noise {own:.1e}, transformers' own {noise:.1e}")
            assert difference <= (1.0 if mode == "prefill" else 1.5) * noise and own <= 1.2 * noise


def main():
    for seed, (name, changes, how) in enumerate(SHAPES):
        check_shape(seed, name, changes, how)
    check_half_types()


if __name__ == "__main__":
    main()
