"""Steps of measure.py: whole networks, as gx's graphs of the same names describe them."""
import torch
import torch.nn.functional as F
from torch import nn

from timing import set_precision

# (network, tokens or 0, batches)
STEPS = [("ResNet-50", 0, (32, 64, 128, 256)), ("ResNet-152", 0, (64,)), ("VGG-16", 0, (64,)),
         ("BERT-large", 128, (32,)), ("BERT-large", 512, (8,)), ("GPT-2 small", 1024, (8,))]


def rows(smoke):
    if smoke:
        return [{"network": name, "tokens": tokens, "precision": precision, "batch": 2}
                for name, tokens in (("ResNet-50", 0), ("BERT-large", 128), ("GPT-2 small", 1024))
                for precision in ("fp32", "fp16")]
    return [{"network": name, "tokens": tokens, "precision": precision, "batch": batch}
            for name, tokens, batches in STEPS for batch in batches
            for precision in ("fp32", "tf32", "fp16")]


class Attention(nn.Module):
    """Scores are stored, as gx's graphs time them; not a fused attention."""

    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        n, tokens, width = x.shape
        q, k, v = self.qkv(x).view(n, tokens, 3, self.heads, width // self.heads).permute(
            2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5
        if self.causal:
            scores = scores + torch.full((tokens, tokens), -1e4, device=x.device,
                                         dtype=scores.dtype).triu(1)
        mixed = F.dropout(torch.softmax(scores, -1), 0.1) @ v
        return self.out(mixed.transpose(1, 2).reshape(n, tokens, width))


class Block(nn.Module):
    def __init__(self, width, heads, gpt):
        super().__init__()
        self.gpt = gpt
        self.attention = Attention(width, heads, gpt)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])

    def feed(self, x):
        return F.dropout(self.down(F.gelu(self.up(x))), 0.1)

    def forward(self, x):
        if self.gpt:
            x = x + F.dropout(self.attention(self.norm[0](x)), 0.1)
            return x + self.feed(self.norm[1](x))
        x = self.norm[0](x + F.dropout(self.attention(x), 0.1))
        return self.norm[1](x + self.feed(x))


class Transformer(nn.Module):
    """BERT with its heads (15 % of the words, and the next sentence), or GPT-2; tied words."""

    def __init__(self, layers, width, heads, words, positions, gpt):
        super().__init__()
        self.gpt = gpt
        self.words = nn.Embedding(words, width)
        self.positions = nn.Embedding(positions, width)
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width, heads, gpt) for _ in range(layers))
        if gpt:
            return
        self.kinds = nn.Embedding(2, width)  # of tokens: first or second sentence
        self.pooler, self.sentence = nn.Linear(width, width), nn.Linear(width, 2)
        self.transform, self.transform_norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(words))

    def forward(self, tokens):
        x = self.words(tokens) + self.positions.weight[:tokens.shape[1]]
        if not self.gpt:
            x = self.norm(x + self.kinds.weight[0])
        x = F.dropout(x, 0.1)
        for block in self.blocks:
            x = block(x)
        if self.gpt:
            return F.linear(self.norm(x), self.words.weight)
        masked = -(-15 * tokens.shape[1] // 100)
        said = self.transform_norm(F.gelu(self.transform(x[:, :masked])))
        said = F.linear(said, self.words.weight, self.bias)
        return said, self.sentence(torch.tanh(self.pooler(x[:, 0])))


def loss_of(answer, labels):
    words = answer[0] if isinstance(answer, tuple) else answer
    flat = words.reshape(-1, words.shape[-1]).float()
    loss = F.cross_entropy(flat, labels[:, :words.shape[1]].reshape(-1)
                           if words.dim() == 3 else labels)
    if isinstance(answer, tuple):
        loss = loss + F.cross_entropy(answer[1].float(), labels[:, 0] % 2)
    return loss


def network(name, smoke):
    if name == "BERT-large":
        size = (2, 64, 4) if smoke else (24, 1024, 16)
        return Transformer(*size, 30522, 512, gpt=False)
    if name == "GPT-2 small":
        return Transformer(*((2, 64, 4) if smoke else (12, 768, 12)), 50257, 1024, gpt=True)
    import torchvision  # only here: the rest runs without it
    names = {"ResNet-50": "resnet50", "ResNet-152": "resnet152", "VGG-16": "vgg16"}
    return getattr(torchvision.models, names[name])()


def measure(r, clock, smoke):
    """Adds eager_ms, graph_ms and memory_peak_bytes: forward, backward, SGD with momentum."""
    set_precision(r["precision"])
    device, half = clock.device, r["precision"] == "fp16"
    net = network(r["network"], smoke).to(device)
    if r["tokens"]:
        tokens = 32 if smoke else r["tokens"]
        x = torch.randint(0, 30522, (r["batch"], tokens), device=device)
        labels = torch.randint(0, 30522, (r["batch"], tokens), device=device)
    else:
        size = 64 if smoke else 224
        net = net.to(memory_format=torch.channels_last)
        x = torch.randn(r["batch"], 3, size, size, device=device).contiguous(
            memory_format=torch.channels_last)
        labels = torch.randint(0, 1000, (r["batch"],), device=device)
    update = torch.optim.SGD(net.parameters(), lr=1e-4, momentum=0.9, foreach=True)

    def step():
        update.zero_grad(set_to_none=True)
        # A constant scale keeps fp16 gradients from 0; a scaler would read overflow each step.
        with torch.autocast(device.type, torch.float16, enabled=half, cache_enabled=False):
            loss = loss_of(net(x), labels)
        (loss * 1024 if half else loss).backward()
        update.step()

    r["eager_ms"] = clock.step_ms(step)
    if clock.cuda:  # of a step whose algorithms are chosen: trying them takes workspaces
        torch.cuda.reset_peak_memory_stats()
        step()
        r["memory_peak_bytes"] = torch.cuda.max_memory_allocated()
    try:
        r["graph_ms"] = clock.graph_ms(step)
    except RuntimeError as e:  # a step that cannot be captured still has its eager time
        r["graph_ms"], r["graph_failed"] = None, str(e).splitlines()[0]
