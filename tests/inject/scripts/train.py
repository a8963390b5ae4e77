"""Trains small models and saves their weights: train.py DEVICE STEPS FILE [MODEL,MODEL].

With models named, they are trained once each in float32, and the transformer with checkpoints."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

DEVICE, STEPS, FILE = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if DEVICE.startswith("npu"):
    import torch_npu  # noqa: F401
torch.set_num_threads(1)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.head = nn.Conv2d(8, 8, 3, padding=1), nn.Linear(8, 5)

    def forward(self, x):
        x = F.relu(self.norm(self.first(x)))
        x = F.max_pool2d(F.relu(x + self.second(x)), 2)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.LSTM(8, 16, 2, batch_first=True, dropout=0.1), nn.Linear(16, 5)

    def forward(self, x):
        return self.head(self.body(x)[0][:, -1])


class Language(nn.Module):
    checkpointed = None

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(20, 16), nn.Linear(16, 5)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(16, 4, 32, 0.1, "gelu", batch_first=True, norm_first=True)
            for _ in range(2)
        )
        self.fused = nn.Linear(16, 48)

    def forward(self, x):
        hidden = self.embed(x)
        size = x.size(1)
        mask = torch.triu(torch.full((size, size), float("-inf"), device=x.device), 1)
        for block in self.blocks:
            if self.checkpointed is None:
                hidden = block(hidden, src_mask=mask, is_causal=True)
            else:
                hidden = checkpoint(block, hidden, mask, use_reentrant=self.checkpointed)
        query, key, value = self.fused(hidden).unflatten(-1, (3, 4, 4)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.head(mixed.transpose(1, 2).flatten(2).mean(1))


def perceptron():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 5))


MODELS = {
    "mlp": (perceptron, lambda: torch.randn(8, 16)),
    "cnn": (Residual, lambda: torch.randn(8, 3, 8, 8)),
    "lstm": (Recurrent, lambda: torch.randn(8, 6, 8)),
    "transformer": (Language, lambda: torch.randint(0, 20, (8, 6))),
}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, 1e-3),
    "adamw": lambda p: torch.optim.AdamW(p, 1e-3),
}


def train(model_name, optimizer_name, low=False, checkpointed=None):
    torch.manual_seed(0)
    make, draw = MODELS[model_name]
    model = make()
    model.checkpointed = checkpointed
    model.to(DEVICE)
    optimizer = OPTIMIZERS[optimizer_name](model.parameters())
    for _ in range(STEPS):
        x, y = draw().to(DEVICE), torch.randint(0, 5, (8,)).to(DEVICE)
        optimizer.zero_grad()
        with torch.autocast(DEVICE.split(":")[0], dtype=torch.bfloat16, enabled=low):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return {name: value.cpu() for name, value in model.state_dict().items()}


if len(sys.argv) > 4:
    runs = {model: train(model, "adamw") for model in sys.argv[4].split(",")}
else:
    runs = {f"{m}-{o}": train(m, o) for m in MODELS for o in OPTIMIZERS}
    runs.update({f"{m}-bf16": train(m, "adamw", low=True) for m in MODELS})
runs["transformer-checkpoint"] = train("transformer", "adamw", checkpointed=False)
runs["transformer-reentrant"] = train("transformer", "adamw", checkpointed=True)
torch.save(runs, FILE)
