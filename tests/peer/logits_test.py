"""Logits of our libtorch forward against transformers on random checkpoints: every position, prefill, steps, and mixed."""
import tempfile

import peer
from peer import torch

TOLERANCE = 2e-4

# name, config changes, how it is saved, lengths
SHAPES = [
    ("grouped, untied", dict(), dict(), [1, 63, 64, 65, 200]),
    ("tied", dict(tie_word_embeddings=True), dict(), [65, 130]),
    ("equal head counts, 128 x 128", dict(linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=128,
                                          linear_value_head_dim=128), dict(), [64, 200]),
    ("key and value sizes differ", dict(linear_key_head_dim=24, linear_value_head_dim=40), dict(), [63, 129]),
    ("nested, vision and mtp tensors", dict(tie_word_embeddings=True, num_hidden_layers=8), dict(nested=True), [200]),
    ("sharded, one kv head, odd widths", dict(hidden_size=72, intermediate_size=100, num_key_value_heads=1,
                                              head_dim=40), dict(shard_size="100KB"), [1, 65]),
    ("full attention first, other eps", dict(layer_types=["full_attention", "linear_attention", "full_attention"],
                                             num_hidden_layers=3, rms_norm_eps=1e-5,
                                             rope_parameters={"rope_type": "default", "rope_theta": 1e4,
                                                              "partial_rotary_factor": 0.5}), dict(), [64, 150]),
]


def compare(name, model, directory, ids, mode):
    expected = model(torch.tensor([ids])).logits[0].float()
    with tempfile.TemporaryDirectory() as scratch:
        ours = peer.our_logits(directory, ids, "float32", mode, scratch)
    worst = (ours - expected).abs().max().item()
    assert worst <= TOLERANCE, f"{name}, {len(ids)} ids, {mode}: logits differ by {worst}"
    top = expected.topk(2, dim=-1).values
    clear = top[:, 0] - top[:, 1] > 2 * TOLERANCE
    assert torch.equal(ours.argmax(-1)[clear], expected.argmax(-1)[clear]), f"{name}, {mode}: top-1 differs"
    assert expected.std().item() > 0.3, f"{name}: logits too flat to show a mistake"
    return worst


def main():
    for seed, (name, changes, how, lengths) in enumerate(SHAPES):
        model = peer.random_model(peer.random_config(**changes), seed)
        with tempfile.TemporaryDirectory() as directory:
            peer.save(model, directory, **how)
            worst = 0
            for length in lengths:
                ids = torch.randint(0, 300, (length,)).tolist()
                for mode in ("prefill", "step", "7,1,64,3"):
                    worst = max(worst, compare(name, model, directory, ids, mode))
        print(f"{name}: worst difference {worst:.1e}")

    # A bfloat16 run rounds at the same places: it is as close to transformers in bfloat16 as that is to float32 or closer.
    model = peer.random_model(peer.random_config(), 99)
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as scratch:
        peer.save(model.to(torch.bfloat16), directory)
        ids = torch.randint(0, 300, (200,)).tolist()
        theirs = model(torch.tensor([ids])).logits[0].float()
        exact = model.to(torch.float32)(torch.tensor([ids])).logits[0]
        ours = peer.our_logits(directory, ids, "bfloat16", "prefill", scratch)
        noise, difference = (theirs - exact).abs().mean().item(), (ours - theirs).abs().mean().item()
        print(f"bfloat16: mean difference {difference:.1e}, transformers' own noise {noise:.1e}")
        assert difference <= noise


if __name__ == "__main__":
    main()
