"""Pictures of the pages for docs/images: `python tests/docs/pictures.py FOLDER`. A server of the tests with
jobs as a lab has them; nothing is run."""

import math
import random
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright
from tests.server.conftest import Running, serving
from tests.server.test_browser import CHROMIUM

from jumar.spec.states import AttemptState

SHOTS = (
    ("overview", "/", "light", "en", 1280),
    ("jobs", "/jobs", "light", "en", 1280),
    ("job", "/jobs/{running}", "light", "en", 1280),
    ("job-dark", "/jobs/{failed}", "dark", "en", 1280),
    ("compare", "/compare?job={running}&job={done}", "light", "en", 1280),
    ("submit", "/submit?from={running}", "light", "zh", 1280),
    ("files", "/jobs/{done}/files?path=out/metrics.csv", "light", "en", 1280),
    ("phone", "/jobs/{running}", "dark", "zh", 390),
    ("admin", "/admin/cards", "light", "zh", 1280),
)
_TIDY = """(home) => { for (const code of document.querySelectorAll("code"))
  code.textContent = code.textContent.replace(home, "/home/ann/.jumar"); }"""
TRACE = """Traceback (most recent call last):
  File "train.py", line 88, in <module>
    loss = step(batch.to("cuda"))
  File "train.py", line 41, in step
    return model(images).mean()
AssertionError: Torch not compiled with CUDA enabled
"""


def training_log(steps: int, seed: int) -> str:
    """A training that learns."""
    dice = random.Random(seed)
    lines = ["\x1b[1mresnet50\x1b[0m on 4 NPUs, batch 256, bf16\n"]
    for step in range(0, steps, 10):
        loss = 2.3 * math.exp(-step / 900) + 0.35 + dice.gauss(0, 0.05)
        rate = 92 - 70 * math.exp(-step / 700) + dice.gauss(0, 0.6)
        colour = "\x1b[32m" if rate > 85 else ""
        lines.append(
            f"epoch {step // 400 + 1} step {step} loss {loss:.4f} acc {colour}{rate:.2f}%\x1b[0m"
            f" lr {3e-4 * (1 - step / 9000):.6f}\n"
        )
    return "".join(lines)


def make_lab(running: Running) -> dict[str, str]:
    """Jobs in all states."""
    done = running.running_job("ann", name="resnet50-baseline", device="sim:2")
    running.log_path(done.id).write_text(training_log(3600, 1))
    out = running.log_path(done.id).parents[2] / "out"
    out.mkdir()
    rows = "".join(
        f"{n},{2.3 * math.exp(-n / 9):.4f},{92 - 70 * math.exp(-n / 7):.2f}\n" for n in range(30)
    )
    (out / "metrics.csv").write_text("epoch,loss,accuracy\n" + rows)
    running.finish(done.id)
    failed = running.running_job("ann", name="unet-segmentation", device="cpu:1")
    running.log_path(failed.id).write_text("loading 12,400 images\n" + TRACE)
    words = "rank 0 exited with code 1"
    running.finish(failed.id, AttemptState.FAILED, exit_code=1, reason=words, tail=TRACE)
    now = running.running_job(
        "ann",
        name="resnet50-cosine-lr",
        device="sim:4",
        command="python train.py --lr 3e-4 --schedule cosine",
    )
    running.log_path(now.id).write_text(training_log(2400, 2))
    running.running_job("bob", name="bert-finetune", device="sim:2")
    for user, name, device in (("bob", "llama-lora", "sim:8"), ("ann", "yolo-v8-nano", "sim:4")):
        running.submit(user, name=name, device=device)
    running.site.service.tag(done.id, ["baseline", "paper"])
    running.site.service.tag(now.id, ["paper"])
    return {"running": now.id, "failed": failed.id, "done": done.id}


def take(page: Page, running: Running, jobs: dict[str, str], folder: Path) -> None:
    """One picture per line of the table."""
    for name, path, scheme, language, width in SHOTS:
        page.emulate_media(color_scheme=scheme)  # pyright: ignore[reportArgumentType]
        page.set_viewport_size({"width": width, "height": 860})
        address = path.format(**jobs)
        page.goto(f"{running.url}{address}{'&' if '?' in address else '?'}lang={language}")
        # Charts are drawn once their numbers have come.
        page.wait_for_timeout(2500)
        # Where this server happens to lie is nobody's business.
        page.evaluate(_TIDY, str(running.home))
        page.screenshot(path=folder / f"{name}.png")


def main() -> None:
    """Take all of them."""
    folder = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as home, serving(Path(home)) as running:
        jobs = make_lab(running)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
            )
            context = browser.new_context(device_scale_factor=1)
            token = running.token("root")
            context.add_cookies([{"name": "jumar_session", "value": token, "url": running.url}])
            take(context.new_page(), running, jobs, folder)
            browser.close()


if __name__ == "__main__":
    main()
