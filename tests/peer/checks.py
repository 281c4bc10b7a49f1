"""What a dense export loaded in transformers must do."""
import copy
import pathlib

from peer import torch


def read_trace(path):
    """Prompt and trace, as token ids."""
    return ([int(word) for word in line.split()] for line in pathlib.Path(path).read_text().splitlines())


def check_generation(model, prompt, trace, name, **settings):
    """Greedy generation and a prefill of the whole; `settings` say how generation ends."""
    out = model.generate(torch.tensor([prompt]), do_sample=False, **settings)
    written = out[0, len(prompt):].tolist()
    assert written == trace, f"{name}: generation differs from the trace at {first_difference(written, trace)}"
    logits = model(torch.tensor([prompt + trace])).logits[0]
    forced = logits[len(prompt) - 1:-1].argmax(-1).tolist()
    assert forced == trace, f"{name}: prefill differs from the trace at {first_difference(forced, trace)}"


def first_difference(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def check_text(model, base, compiled_layers, name):
    """Compiled layers leave text's residual bit by bit; the base's distribution comes out."""
    torch.manual_seed(1)
    ids = torch.randint(0, base.config.vocab_size, (1, 300))
    residuals = []

    def keep(module, args, kwargs):
        residuals.append((args[0] if args else kwargs["hidden_states"]).clone())

    hooks = [layer.register_forward_pre_hook(keep, with_kwargs=True) for layer in model.model.layers]
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
    coarse = copy.deepcopy(base).to(torch.bfloat16)  # a copy: rounding does not come undone
    noise = coarse(ids).logits[0].double().log_softmax(-1)
    noise_kl = (expected.exp() * (expected - noise)).sum(-1).mean().item()
    print(f"{name}: text KL mean {kl.mean():.1e} max {kl.max():.1e}, machine share {machine:.1e}; "
          f"the base's own bfloat16 noise {noise_kl:.1e}")
    assert machine < 1e-9
    assert abs(kl.mean()) < (1e-9 if name == "float32" else 1.5 * noise_kl)
