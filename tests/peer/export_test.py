"""A dense export in transformers, with none of our code in the way: greedy generation writes the trace, text is the base's."""
import pathlib
import tempfile

import peer
from peer import AutoModelForCausalLM, torch
from transformers import AutoTokenizer


def check_generation(model, prompt, trace, name):
    out = model.generate(torch.tensor([prompt]), max_new_tokens=len(trace), do_sample=False, eos_token_id=-1)
    written = out[0, len(prompt):].tolist()
    assert written == trace, f"{name}: generation differs from the trace at {first_difference(written, trace)}"
    logits = model(torch.tensor([prompt + trace])).logits[0]
    forced = logits[len(prompt) - 1:-1].argmax(-1).tolist()
    assert forced == trace, f"{name}: prefill differs from the trace at {first_difference(forced, trace)}"


def first_difference(a, b):
    return next(i for i, (x, y) in enumerate(zip(a, b)) if x != y)


def check_text(model, base, compiled_layers, name):
    """Compiled layers leave text's residual bit by bit; the base's distribution comes out."""
    torch.manual_seed(1)
    ids = torch.randint(0, base.config.vocab_size, (1, 300))
    residuals = []
    hooks = [layer.register_forward_pre_hook(lambda module, args, kwargs: residuals.append((args or (kwargs["hidden_states"],))[0].clone()),
                                             with_kwargs=True) for layer in model.model.layers]
    logits = model(ids).logits[0].double()
    for hook in hooks:
        hook.remove()
    assert len(residuals) == compiled_layers + base.config.num_hidden_layers
    for layer in range(1, compiled_layers + 1):
        assert torch.equal(residuals[layer], residuals[0]), f"{name}: compiled layer {layer - 1} changes text"
    expected = base(ids).logits[0].double().log_softmax(-1)
    vocabulary = base.config.vocab_size
    got = logits[:, :vocabulary].log_softmax(-1)
    kl = (expected.exp() * (expected - got)).sum(-1)
    machine = logits.softmax(-1)[:, vocabulary:].sum(-1).max().item()
    noise = base.to(torch.bfloat16)(ids).logits[0].double().log_softmax(-1)
    base.to(torch.float32)
    noise_kl = (expected.exp() * (expected - noise)).sum(-1).mean().item()
    print(f"{name}: text KL mean {kl.mean():.1e} max {kl.max():.1e}, machine share {machine:.1e}; "
          f"the base's own bfloat16 noise {noise_kl:.1e}")
    assert machine < 1e-9
    assert abs(kl.mean()) < (1e-9 if name == "float32" else 2 * noise_kl)


def check_tokenizer(directory, prompt, base_vocabulary):
    tokenizer = AutoTokenizer.from_pretrained(directory)
    text = tokenizer.decode(prompt)
    assert tokenizer.encode(text) == prompt, f"{text} does not come back as {prompt}"
    for sample in ("Hello, world!\n", "na\u00efve \u4e2d\u6587 \U0001f600", "  two  spaces"):
        ids = tokenizer.encode(sample)
        assert max(ids) < base_vocabulary and tokenizer.decode(ids) == sample, sample


def main():
    for type_name, dtype in peer.TYPES.items():
        with tempfile.TemporaryDirectory() as scratch:
            base_dir, out, trace_file = (pathlib.Path(scratch, name) for name in ("base", "out", "trace"))
            peer.tool("export-synthetic", base_dir, out, type_name, trace_file)
            prompt, trace = ([int(word) for word in line.split()] for line in trace_file.read_text().splitlines())
            assert len(set(trace)) > 10
            model = AutoModelForCausalLM.from_pretrained(out).eval()
            assert type(model).__name__ == "Qwen3_5ForCausalLM" and model.dtype == dtype
            base = AutoModelForCausalLM.from_pretrained(base_dir).eval().to(torch.float32)
            compiled = model.config.num_hidden_layers - base.config.num_hidden_layers
            check_generation(model, prompt, trace, type_name)
            check_text(model, base, compiled, type_name)
            check_tokenizer(out, prompt, base.config.vocab_size)


if __name__ == "__main__":
    main()
