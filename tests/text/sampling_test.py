"""What is drawn is drawn from the tokens that transformers' own processors leave, as often as they say.

sampling_test.py TEXT_TOOL [SEED]"""
import random
import sys

from text_peer import SKIPPED, ask

try:
    import torch
    from transformers.generation.logits_process import (MinPLogitsWarper, RepetitionPenaltyLogitsProcessor,
                                                        TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper)
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(SKIPPED)

SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 20260315
DRAWS = 3000


def reference(request):
    """The probability of every token, in double precision."""
    scores = torch.tensor([request["logits"]], dtype=torch.float32)
    if request["seen"]:
        seen = torch.tensor([request["seen"]])
        scores = RepetitionPenaltyLogitsProcessor(request["repetition_penalty"])(seen, scores)
    scores = scores.double()
    scores = TemperatureLogitsWarper(request["temperature"])(None, scores)
    if request["top_k"] > 0:
        scores = TopKLogitsWarper(request["top_k"])(None, scores)
    if request["top_p"] < 1:
        scores = TopPLogitsWarper(request["top_p"])(None, scores)
    if request["min_p"] > 0:
        scores = MinPLogitsWarper(request["min_p"])(None, scores)
    return scores.softmax(-1)[0].tolist()


def main():
    dice = random.Random(SEED)
    print(f"seed {SEED}")
    requests = []
    for number in range(150):
        size = dice.choice((1, 2, 5, 40, 300))
        spread = dice.choice((0.1, 1, 5))
        top_p = dice.choice((1.0, 0.999, 0.9, 0.5, 0.01))
        # With ties, but where top-p has to choose between them: there either choice is right.
        logits = [round(dice.gauss(0, spread), 1 if top_p == 1 and dice.random() < 0.5 else 9) for _ in range(size)]
        requests.append({"logits": logits, "temperature": dice.choice((0.3, 0.7, 1.0, 2.0)), "top_k": dice.choice((0, 1, 3, 20)),
                         "top_p": top_p, "min_p": dice.choice((0, 0, 0.02, 0.3, 1.0)), "repetition_penalty": dice.choice((1.0, 1.2, 0.7, 3.0)),
                         "seen": dice.sample(range(size), dice.randrange(size + 1)), "seed": number, "draws": DRAWS})
    answers = ask(["sample"], requests)
    assert ask(["sample"], requests) == answers, "the seed does not decide everything"
    worst = 0
    for request, answer in zip(requests, answers):
        expected = reference(request)
        counts = [0] * len(expected)
        for index in answer["ids"]:
            counts[index] += 1
        for index, (count, probability) in enumerate(zip(counts, expected)):
            assert probability > 0 or count == 0, f"token {index} was left out, and drawn {count} times: {request}"
            deviation = abs(count - DRAWS * probability) / max(1, DRAWS * probability * (1 - probability)) ** 0.5
            worst = max(worst, deviation)
            assert deviation < 7, f"token {index}: drawn {count} times, expected {DRAWS * probability}: {request}"
    print(f"{len(requests)} distributions, {DRAWS} draws each; worst deviation {worst:.1f} standard deviations")


if __name__ == "__main__":
    main()
