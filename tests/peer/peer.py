"""What the peer tests share: skipping without transformers, running peer_tool, small random checkpoints."""
import json
import pathlib
import subprocess
import sys

SKIPPED = 77  # ctest shows it as "Skipped"

try:
    import torch
    import transformers
    from transformers import AutoModelForCausalLM, Qwen3_5ForCausalLM, Qwen3_5TextConfig
    from safetensors.torch import load_file
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(SKIPPED)

transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
torch.set_grad_enabled(False)
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
TOOL = sys.argv[1]


def tool(*args):
    subprocess.run([TOOL, *map(str, args)], check=True)


def our_logits(directory, sequences, type_name, modes, scratch):
    """Our logits by (sequence number, mode): [positions, vocabulary] float32, from one run of peer_tool."""
    ids_file, out = pathlib.Path(scratch, "ids"), pathlib.Path(scratch, "logits.safetensors")
    ids_file.write_text("\n".join(" ".join(map(str, ids)) for ids in sequences))
    tool("logits", directory, ids_file, type_name, " ".join(modes), out)
    tensors = load_file(out)
    return {(i, mode): tensors[f"{i}.{mode}"] for i in range(len(sequences)) for mode in modes}


def random_config(**changes):
    """A small Qwen3.5 text config; `changes` override fields."""
    fields = dict(vocab_size=300, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
                  num_key_value_heads=2, head_dim=32, linear_num_key_heads=2, linear_num_value_heads=4,
                  linear_key_head_dim=32, linear_value_head_dim=32, tie_word_embeddings=False,
                  rope_parameters={"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25})
    fields.update(changes)
    return Qwen3_5TextConfig(**fields)


def random_model(config, seed):
    """transformers' own model with weights large enough that every term shows in the logits."""
    torch.manual_seed(seed)
    model = Qwen3_5ForCausalLM(config).eval()
    for name, weight in model.named_parameters():
        if name.endswith("A_log"):
            weight.uniform_(-1.5, 1.5)
        elif name.endswith("dt_bias"):
            weight.normal_(-1, 1)
        elif name.endswith("linear_attn.norm.weight"):
            weight.normal_(1, 0.2)
        elif name.endswith("norm.weight"):
            weight.normal_(0, 0.2)
        elif name.endswith("conv1d.weight"):
            weight.normal_(0, 0.5)
        else:
            weight.normal_(0, 1.0 * weight.shape[-1] ** -0.5)
    return model


def save(model, directory, nested=False, shard_size="1GB"):
    """Saves as published checkpoints are: flat, or nested under text_config with language_model names."""
    model.save_pretrained(directory, max_shard_size=shard_size)
    if not nested:
        return
    directory = pathlib.Path(directory)
    config = json.loads((directory / "config.json").read_text())
    text = dict(config, model_type="qwen3_5_text")
    outer = {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "text_config": text,
             "tie_word_embeddings": text["tie_word_embeddings"]}
    (directory / "config.json").write_text(json.dumps(outer))
    from safetensors.torch import save_file
    path = directory / "model.safetensors"
    tensors = {name.replace("model.", "model.language_model.", 1): value for name, value in load_file(path).items()}
    tensors["model.visual.patch_embed.proj.weight"] = torch.zeros(3, 5)
    tensors["mtp.norm.weight"] = torch.zeros(7)
    save_file(tensors, path)
