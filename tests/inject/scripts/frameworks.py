"""A few steps of training by a public framework: `frameworks.py NAME DEVICE` prints a line of losses.

Written as its users write: nothing here knows that the NPU is simulated."""

import json
import math
import os
import sys
from typing import Any

import numpy
import torch
from torch import nn
from torch.nn import functional

WORDS, LENGTH, STEPS = 64, 16, 4


def rows(count: int) -> "list[dict[str, torch.Tensor]]":
    source = torch.Generator().manual_seed(3)
    made = torch.randint(WORDS, (count, LENGTH), generator=source)
    return [{"input_ids": row, "labels": row} for row in made]


def language_model() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=WORDS,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
        )
    )


def by_trainer(model: Any, device: str) -> "list[float]":
    from transformers import Trainer, TrainingArguments

    options = TrainingArguments(
        "out",
        max_steps=STEPS,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        gradient_checkpointing=True,
        logging_steps=1,
        logging_nan_inf_filter=False,
        save_strategy="no",
        report_to="none",
        bf16=True,
        use_cpu=device == "cpu",
    )
    trainer = Trainer(model, options, train_dataset=rows(32))
    trainer.train()
    assert trainer.args.device.type == device
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def transformers(device: str) -> "list[float]":
    return by_trainer(language_model(), device)


def peft(device: str) -> "list[float]":
    from peft import LoraConfig, get_peft_model

    options = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], lora_dropout=0.1, use_dora=True)
    model: Any = get_peft_model(language_model(), options)
    model.enable_input_require_grads()
    return by_trainer(model, device)


def accelerate(device: str) -> "list[float]":
    from accelerate import Accelerator

    accelerator = Accelerator(
        cpu=device == "cpu", gradient_accumulation_steps=2, mixed_precision="bf16"
    )
    assert accelerator.device.type == device
    model = language_model()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    loader = torch.utils.data.DataLoader(rows(16), batch_size=2, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses: list[float] = []
    for batch in loader:
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(accelerator.gather_for_metrics(loss.detach()).mean().item())
    accelerator.save_state("out")
    return losses


def timm(device: str) -> "list[float]":
    # timm imports torchvision, whose wheels may have their operators for CUDA alone.
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import timm
    from timm.data.mixup import Mixup
    from timm.loss import SoftTargetCrossEntropy
    from timm.optim import create_optimizer_v2
    from timm.utils import ModelEmaV3, NativeScaler

    losses: list[float] = []
    for name in ("resnet18", "vit_tiny_patch16_224", "convnext_atto"):
        torch.manual_seed(1)
        extra = {"img_size": 32} if name.startswith("vit") else {}
        model = timm.create_model(name, num_classes=10, drop_path_rate=0.1, **extra).to(device)
        average = ModelEmaV3(model, decay=0.9)
        optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
        mixup, scaler = Mixup(0.8, 1.0, num_classes=10), NativeScaler(device=device)
        for step in range(2):
            images, target = torch.randn(4, 3, 32, 32), torch.randint(10, (4,))
            images, target = mixup(images.to(device), target.to(device))
            # No autocast: in strict mode its list of operators is the plug-in's, not the CPU's.
            loss = SoftTargetCrossEntropy()(model(images), target)
            optimizer.zero_grad()
            scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
            average.update(model, step)
            losses.append(loss.item())
    return losses


def npu_of_lightning() -> Any:
    """What a user of Lightning writes for a device that it does not know."""
    from lightning.pytorch.accelerators import Accelerator
    from lightning.pytorch.strategies import SingleDeviceStrategy

    class Npu(Accelerator):
        @staticmethod
        def parse_devices(devices: Any) -> "list[torch.device]":
            return [torch.device("npu", 0)]

        get_parallel_devices = parse_devices

        @staticmethod
        def auto_device_count() -> int:
            return 1

        @staticmethod
        def is_available() -> bool:
            return True

        @staticmethod
        def name() -> str:
            return "npu"

        def setup_device(self, device: torch.device) -> None:
            torch.npu.set_device(device)

        def teardown(self) -> None:
            torch.npu.empty_cache()

        def get_device_stats(self, device: Any) -> "dict[str, Any]":
            return {}

    return SingleDeviceStrategy("npu:0", accelerator=Npu())


def lightning(device: str) -> "list[float]":
    """With an accelerator of its user's: Lightning itself has none for NPUs."""
    import lightning
    from lightning.pytorch import LightningModule, Trainer

    class Model(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.LSTM(8, 16, batch_first=True)
            self.head, self.losses = nn.Linear(16, 1), []

        def training_step(self, batch: "list[torch.Tensor]", index: int) -> torch.Tensor:
            loss = functional.mse_loss(self.head(self.body(batch[0])[0]), batch[1])
            self.log("loss", loss, prog_bar=True)
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters())

    lightning.seed_everything(1)
    data = torch.utils.data.TensorDataset(torch.randn(16, 5, 8), torch.randn(16, 5, 1))
    trainer = Trainer(
        max_epochs=2,
        accelerator="cpu" if device == "cpu" else "auto",
        strategy="auto" if device == "cpu" else npu_of_lightning(),
        devices=1,
        logger=False,
        gradient_clip_val=1.0,
        enable_progress_bar=False,
    )
    model = Model()
    trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=4))
    return model.losses


def deepspeed(device: str, stage: int) -> "list[float]":
    import deepspeed

    settings: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 2,
        "gradient_clipping": 1.0,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": stage},
    }
    model = language_model()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    engine: Any = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)[0]
    losses: list[float] = []
    data = rows(32)[int(os.environ["RANK"]) :: int(os.environ["WORLD_SIZE"])]
    for first in range(0, 16, 2):
        batch = torch.stack([row["input_ids"] for row in data[first : first + 2]]).to(engine.device)
        loss = engine(input_ids=batch, labels=batch).loss
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    assert engine.device.type == device
    torch.distributed.destroy_process_group()
    return losses


def main() -> None:
    name, device = sys.argv[1:]
    torch.manual_seed(0)
    numpy.random.seed(0)  # mixup asks numpy
    if device == "npu":
        import torch_npu  # noqa: F401
    kind, _, stage = name.partition("-zero")
    losses = globals()[kind](device, *([int(stage)] if stage else []))
    assert losses and all(math.isfinite(one) for one in losses)
    print("losses", json.dumps(losses), flush=True)


main()
