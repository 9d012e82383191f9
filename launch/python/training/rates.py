"""Acceptance rates of a head on texts that were not used for training."""
import dataclasses

import torch
from torch.nn import functional


@dataclasses.dataclass
class Rates:
    """Per depth (0: the token after the next): number of compared guesses, of correct ones, and of correct ones whose predecessors are all
    correct."""
    compared: list
    right: list
    chain: list

    def share(self, depth):
        return self.right[depth] / max(self.compared[depth], 1)

    def tokens_per_pass(self):
        """Tokens per pass with chains of guesses of full depth: the target's own token, and the guesses before the first wrong one."""
        return 1 + sum(chain / max(compared, 1) for chain, compared in zip(self.chain, self.compared))

    def __str__(self):
        return ' '.join(f'{self.share(depth):.3f}' for depth in range(len(self.right))) + f', {self.tokens_per_pass():.2f} tokens per pass'


class HeldOut:
    """Held-out batches, with the target's choice after each of their rows: the text's next token if the target generated it, else the
    highest logit. If any text has rows that the target generated, only such rows count. `batches` may be iterated again and again."""

    def __init__(self, batches, target):
        self.batches, self.any_own, self.choices = batches, False, []
        for batch in batches:
            self.any_own |= bool(batch.own(0).any())
            self.choices.append(self.choose(batch, target))

    @staticmethod
    @torch.no_grad()
    def choose(batch, target):
        highest = torch.stack([functional.linear(rows, target.output).argmax(-1) for rows in batch.hidden['last']])
        rows = torch.arange(batch.ids.shape[1], device=batch.ids.device)
        written = (rows + 1 >= batch.prompts[:, None]) & (rows + 1 < batch.lengths[:, None])
        return torch.where(written, batch.ahead(batch.ids, 1), highest)

    @torch.no_grad()
    def rates(self, head):
        total = Rates(*([0] * head.depths for _ in range(3)))
        for batch, choices in zip(self.batches, self.choices):
            before = torch.ones_like(choices, dtype=torch.bool)
            for depth, guess in enumerate(head.guesses(batch)):
                counts = batch.own(depth) if self.any_own else batch.known(depth)
                right = guess == batch.ahead(choices, depth + 1)
                before &= right
                total.compared[depth] += int(counts.sum())
                total.right[depth] += int((right & counts).sum())
                total.chain[depth] += int((before & counts).sum())
        return total
