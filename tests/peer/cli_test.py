"""`qgpu inspect`, `qgpu logits`, `qgpu build --base` and `qgpu export` from outside, on checkpoints that transformers saved.

Arguments: peer_tool, qgpu."""
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import peer
from peer import AutoModelForCausalLM, load_file, torch

QGPU = sys.argv[2]
TOLERANCE = 2e-4


def qgpu(*args, code=0, **environment):
    """Standard output, or the error's text where `code` is not 0."""
    done = subprocess.run([QGPU, *map(str, args)], capture_output=True, text=True, env=os.environ | environment)
    assert done.returncode == code, f"qgpu {args}: exit code {done.returncode}, not {code}\n{done.stdout}{done.stderr}"
    return done.stdout if code == 0 else done.stdout + done.stderr


def check_logits(base, scratch, model):
    ids = torch.randint(0, 300, (130,)).tolist()
    expected = model(torch.tensor([ids])).logits[0]
    out = scratch / "logits.safetensors"
    for mode in ("prefill", "step"):
        qgpu("logits", base, "--ids", ",".join(map(str, ids)), "--dtype", "float32", "--mode", mode, "--out", out)
        tensors = load_file(out)
        assert list(tensors) == ["logits"] and tensors["logits"].shape == expected.shape
        assert tensors["logits"].dtype == torch.float32
        assert (tensors["logits"] - expected).abs().max().item() <= TOLERANCE, mode
        out.unlink()
    # With fewer threads than cores as with all of them.
    by_threads = []
    for environment in ({}, {"OMP_THREAD_LIMIT": "1"}):
        qgpu("logits", base, "--ids", "1,2,3", "--dtype", "bfloat16", "--out", out, **environment)
        by_threads.append(load_file(out)["logits"])
        out.unlink()
    assert (by_threads[0] - by_threads[1]).abs().max().item() <= 0.01 * by_threads[0].abs().max().item()
    for wrong in ("300", "-1", "1,x", ""):
        qgpu("logits", base, f"--ids={wrong}", "--out", out, code=2)
    too_long = ",".join(["1"] * (model.config.max_position_embeddings + 1))
    assert "max_position_embeddings" in qgpu("logits", base, "--ids", too_long, "--out", out, code=2)
    assert not list(scratch.glob("logits*")), "a failed run leaves a file"


def check_inspect(base, model):
    report = json.loads(qgpu("inspect", base, "--json", "--all-bytes"))
    assert report["parameters"] == sum(weight.numel() for weight in model.parameters())
    assert report["architecture"] == "Qwen3_5ForCausalLM" and report["damage"] == []
    assert report["config"]["hidden_size"] == 64 and report["build"]["accepted"]


def check_damage(base, scratch):
    """What is wrong is said by inspect, and build refuses it for the same reason."""
    whole = (base / "model.safetensors").read_bytes()
    (base / "model.safetensors").write_bytes(whole[:-100])
    assert "truncated" in qgpu("inspect", base, code=2)
    assert "truncated" in qgpu("build", "--base", base, "--out", scratch / "none", code=2)
    (base / "model.safetensors").write_bytes(whole)
    from safetensors.torch import save_file
    weights = load_file(base / "model.safetensors")
    next(iter(weights.values())).view(-1)[0] = float("nan")
    save_file(weights, base / "model.safetensors", {"format": "pt"})
    assert "weights that are no numbers" in qgpu(
        "logits", base, "--ids", "0,1,2", "--out", scratch / "logits.safetensors", code=2)
    assert not list(scratch.glob("logits*")), "a failed run leaves a file"
    (base / "model.safetensors").write_bytes(whole)
    config = (base / "config.json").read_text()
    changed = dict(json.loads(config), linear_key_head_dim=64)
    (base / "config.json").write_text(json.dumps(changed))
    assert "config.json asks for" in qgpu("inspect", base, code=2)
    (base / "config.json").write_text(config)
    assert not (scratch / "none").exists()


def check_other_heads(scratch):
    """Text runs with any head size; the circuit needs 128 x 128, and build says so."""
    other = scratch / "other"
    peer.save(peer.random_model(peer.random_config(), 3), other)
    assert "accepted" in qgpu("inspect", other, "--json")
    assert "heads of 128 x 128" in qgpu("build", "--base", other, code=2)


def check_export(base, scratch):
    split, dense, wider = scratch / "split", scratch / "dense", scratch / "wider"
    peer.save(peer.random_model(peer.random_config(hidden_size=72, linear_key_head_dim=128, linear_value_head_dim=128),
                                4), wider)
    report = json.loads(qgpu("build", "--base", base, "--out", split, "--json"))
    note = json.loads((split / "qgpu_model.json").read_text())
    assert note["circuit"] == report["circuit"] and note["base"] == str(base)
    assert "hidden size 64" in qgpu("export", "--dense", dense, "--circuit", split, "--base", wider, code=2)
    assert not dense.exists() and not pathlib.Path(f"{dense}.partial").exists()
    qgpu("export", "--dense", dense, "--base", base, "--dtype", "bfloat16")  # with the circuit that build makes for it
    manifest = json.loads((dense / "qgpu_manifest.json").read_text())
    for path in dense.iterdir():
        if path.name != "qgpu_manifest.json":
            with path.open("rb") as file:
                assert manifest["files"][path.name]["sha256"] == hashlib.file_digest(file, "sha256").hexdigest(), path
    assert manifest["circuit"] == report["circuit"]
    inspected = json.loads(qgpu("inspect", dense, "--json"))
    assert inspected["damage"] == [] and inspected["parameters"] == report["dense_form"]["parameters"]
    assert inspected["circuit"] == report["circuit"] and not inspected["build"]["accepted"]  # it is merged already
    qgpu("export", "--dense", dense, "--circuit", split, "--base", base, code=2)  # it is there already


def main():
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        base = scratch / "base"
        config = peer.random_config(linear_key_head_dim=128, linear_value_head_dim=128, tie_word_embeddings=True,
                                    max_position_embeddings=256)
        peer.save(peer.random_model(config, 1), base)
        model = AutoModelForCausalLM.from_pretrained(base).eval()
        check_inspect(base, model)
        check_logits(base, scratch, model)
        check_damage(base, scratch)
        check_other_heads(scratch)
        check_export(base, scratch)


if __name__ == "__main__":
    main()
