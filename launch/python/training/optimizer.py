"""The optimizer of heads: Muon (Jordan 2024; arXiv 2502.16982) for the matrices inside a head, AdamW for norms, biases and output matrices.
Heads are trained for a few thousand steps, and in these Muon learns more per step than AdamW."""
import torch

FACTOR = 6.0    # Muon's learning rate relative to AdamW's
MOMENTUM = 0.95
DECAY = 0.01    # of weights, relative to the learning rate
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
NEWTON_SCHULZ_STEPS = 5


def orthogonalized(matrix, dtype):
    """About U V^T, where matrix [m, n] is U S V^T: all its singular values become about 1. Newton-Schulz iterations in `dtype`."""
    a, b, c = NEWTON_SCHULZ
    wide = matrix.shape[0] <= matrix.shape[1]
    x = (matrix if wide else matrix.T).to(dtype)
    x = x / (x.norm() + 1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x if wide else x.T).to(matrix.dtype)


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalized; the root mean square of a step is about 0.2 times the learning rate, as with AdamW."""

    def __init__(self, parameters, lr, dtype):
        super().__init__(parameters, {'lr': lr})
        self.dtype = dtype

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in (weight for weight in group['params'] if weight.grad is not None):
                state = self.state[weight]
                if not state:
                    state['momentum'] = torch.zeros_like(weight)
                mean = state['momentum'].lerp_(weight.grad, 1 - MOMENTUM)
                step = orthogonalized(weight.grad.lerp(mean, MOMENTUM), self.dtype)
                weight.mul_(1 - group['lr'] * DECAY).add_(step, alpha=-group['lr'] * 0.2 * max(weight.shape)**0.5)


class Optimizer:
    """All trained parameters of a head. `kind` is muon, or adamw for all of them; bf16: iterate in bfloat16."""

    def __init__(self, head, kind, bf16):
        trained = [weight for weight in head.parameters() if weight.requires_grad]
        outputs = {id(weight) for weight in head.outputs()}
        matrices = [weight for weight in trained if weight.ndim == 2 and id(weight) not in outputs] if kind == 'muon' else []
        inside = {id(weight) for weight in matrices}
        others = [weight for weight in trained if id(weight) not in inside]
        self.parts = []  # (optimizer, its learning rate relative to the given one)
        if matrices:
            self.parts.append((Muon(matrices, 0.0, torch.bfloat16 if bf16 else torch.float32), FACTOR))
        if others:
            self.parts.append((torch.optim.AdamW(others, lr=0.0, betas=(0.9, 0.95), weight_decay=DECAY), 1.0))

    def zero_grad(self):
        for part, _ in self.parts:
            part.zero_grad(set_to_none=True)

    def step(self, learning_rate):
        for part, factor in self.parts:
            for group in part.param_groups:
                group['lr'] = factor * learning_rate
            part.step()

    def state_dict(self):
        return [part.state_dict() for part, _ in self.parts]

    def load_state_dict(self, states):
        """Raises ValueError if the states are those of another number of optimizers, or of other weights."""
        for (part, _), state in zip(self.parts, states, strict=True):
            part.load_state_dict(state)
