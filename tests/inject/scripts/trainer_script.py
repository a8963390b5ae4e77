"""A training with transformers' Trainer that knows nothing of jumar."""

import random

import numpy as np
import torch
from faults_at_steps import Faults, digest
from transformers import Trainer, TrainingArguments


class Data(torch.utils.data.Dataset):
    def __init__(self, noise):
        made = torch.Generator().manual_seed(1)
        self.x = torch.randn(22, 4, generator=made)
        self.noise = noise

    def __len__(self):
        return len(self.x)

    def __getitem__(self, at):
        drawn = (
            torch.randn(4) * 0.1 + float(np.random.rand()) + random.random() if self.noise else 0
        )
        return {"x": self.x[at] + drawn, "labels": self.x[at].sum()}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1)
        )

    def forward(self, x, labels=None):
        if self.training:
            Faults.step()
        made = self.inner(x).squeeze(-1)
        return {"loss": torch.nn.functional.mse_loss(made, labels), "logits": made}


def train(folder, result, noise=True, **options):
    settings = {
        "num_train_epochs": 3, "per_device_train_batch_size": 4, "save_strategy": "steps",
        "save_steps": 4, "save_total_limit": 2, "logging_strategy": "no", "seed": 7,
        "report_to": [], "disable_tqdm": True, "use_cpu": not (hasattr(torch, "npu") or torch.cuda.is_available()),
    }  # fmt: skip
    arguments = TrainingArguments(output_dir=folder, **{**settings, **options})
    torch.manual_seed(0)
    data = Data(noise)
    trainer = Trainer(model=Model(), args=arguments, train_dataset=data, eval_dataset=data)
    trainer.train()
    if trainer.is_world_process_zero():
        with open(result, "w") as file:
            file.write(digest(trainer.model))
    return trainer
