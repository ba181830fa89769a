"""The run of optimizer_cases.py by an optimizer of PyTorch's interface, in double."""
import torch
from optimizer_cases import STEPS, TENSORS, gradient, initial, rate, skipped

torch.set_num_threads(1)


def groups(decay):
    """A group for each tensor: weights decay, and nothing else does."""
    return [{"params": [torch.tensor(initial(t), dtype=torch.float64).requires_grad_()],
             "weight_decay": decay if role == "weight" else 0.0}
            for t, (role, _) in enumerate(TENSORS)]


def tensors(optimizer):
    return [group["params"][0] for group in optimizer.param_groups]


def parameters(optimizer):
    return torch.cat([w.detach() for w in tensors(optimizer)])


def state(optimizer, name):
    return torch.cat([optimizer.state[w][name] for w in tensors(optimizer)])


def descend(optimizer, peak, change=lambda tensors: None):
    """Makes all updates; `change` sees the tensors before each. Yields behind each."""
    for step in range(STEPS):
        if skipped(step):
            continue
        for t, w in enumerate(tensors(optimizer)):
            w.grad = torch.tensor(gradient(t, step), dtype=torch.float64)
        change(tensors(optimizer))
        for group in optimizer.param_groups:
            group["lr"] = rate(step, peak)
        optimizer.step()
        yield
