"""A training with Lightning that knows nothing of jumar."""

import lightning as L
import numpy as np
import torch
from faults_at_steps import Faults, digest
from lightning.pytorch.callbacks import ModelCheckpoint


class Data(torch.utils.data.Dataset):
    def __init__(self):
        made = torch.Generator().manual_seed(1)
        self.x = torch.randn(22, 4, generator=made)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, at):
        return self.x[at] + torch.randn(4) * 0.1 + float(np.random.rand()), self.x[at].sum()


class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1)
        )

    def training_step(self, batch, at):
        Faults.step()
        return torch.nn.functional.mse_loss(self.inner(batch[0]).squeeze(-1), batch[1])

    def validation_step(self, batch, at):
        self.log("val", torch.nn.functional.mse_loss(self.inner(batch[0]).squeeze(-1), batch[1]))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.7)]


def train(folder, result, workers=0, validate=True, every=0, ranks=1):
    L.seed_everything(3, verbose=False)
    saving = ModelCheckpoint(folder, every_n_train_steps=every or None, save_last=True)
    trainer = L.Trainer(
        max_epochs=3, accelerator="cpu", callbacks=[saving], logger=False, default_root_dir=folder,
        devices=ranks, strategy="ddp" if ranks > 1 else "auto", enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=1,
    )  # fmt: skip
    model = Module()
    loader = torch.utils.data.DataLoader(Data(), 4, shuffle=True, num_workers=workers)
    trainer.fit(model, loader, torch.utils.data.DataLoader(Data(), 8) if validate else None)
    if trainer.is_global_zero:
        with open(result, "w") as file:
            file.write(digest(model))
    return trainer
