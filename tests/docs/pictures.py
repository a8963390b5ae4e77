"""Take the pictures of the pages that the documentation shows: `python tests/docs/pictures.py [FOLDER]`.

A server in this process, whose engine runs nothing, with what a lab has on an afternoon."""

import math
import random
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.server.conftest import Running, serving
from tests.server.test_browser import CHROMIUM

from jumar.engine.local.planning import make_plan
from jumar.server.api.alerts import keep_alerts
from jumar.spec.devices import Card, CardRef, DeviceKind
from jumar.spec.job import JobSpec
from jumar.spec.metrics import Alert
from jumar.spec.records import Plan
from jumar.spec.states import AttemptState

FOLDER = Path(__file__).resolve().parents[2] / "docs/images"
DESKTOP, PHONE = (1280, 860), (390, 860)
FAILED = """\
loading 12,400 images
Traceback (most recent call last):
  File "train.py", line 88, in <module>
    loss = step(batch.to("cuda"))
  File "train.py", line 41, in step
    return model(images).mean()
AssertionError: Torch not compiled with CUDA enabled
"""


def lines(steps: int, rate: float, seed: int) -> str:
    """A training's log."""
    noise = random.Random(seed)
    told: list[str] = []
    for step in range(0, steps, 10):
        loss = 2.3 * math.exp(-step / (rate * 900)) + 0.35 + noise.gauss(0, 0.04)
        accuracy = 92 - 70 * math.exp(-step / (rate * 700)) + noise.gauss(0, 0.6)
        told.append(
            f"epoch {step // 400 + 1} step {step} loss {loss:.4f} acc \x1b[32m{accuracy:.2f}%\x1b[0m"
            f" lr {3e-4 * (1 - step / 9000):.6f}\n"
        )
    return "".join(told)


def local_plan(spec: JobSpec, *, user: str, archive: Path | None = None) -> Plan:
    """What a machine's own engine would say: the one that runs nothing says just that."""
    directory = Path("/home/ann/.jumar/jobs/<id>")
    return make_plan(spec, archive=archive, cards=None, directory=directory, can_look=False)


def fill(running: Running) -> dict[str, str]:
    """Jobs in every state; their ids by name."""
    service = running.site.service
    running.engine.plan = local_plan
    first = running.running_job("ann", name="resnet50-baseline", device="sim:2")
    running.log_path(first.id).write_text(lines(3600, 1.3, 2))
    (running.log_path(first.id).parents[2] / "out").mkdir()
    rows = "".join(f"{n},{2.3 * 0.895**n:.4f},{92 - 70 * 0.87**n:.2f}\n" for n in range(15))
    (running.log_path(first.id).parents[2] / "out/metrics.csv").write_text(
        f"epoch,loss,accuracy\n{rows}"
    )
    running.finish(first.id)
    failed = running.running_job("ann", name="unet-segmentation", device="cpu:1")
    running.log_path(failed.id).write_text(FAILED)
    running.finish(failed.id, AttemptState.FAILED, exit_code=1, reason="rank 0 exited with code 1")
    command = "python train.py --lr 3e-4 --schedule cosine"
    job = running.running_job(
        "ann", name="resnet50-cosine-lr", device="sim:4", ranks="device", command=command
    )
    for rank in range(4):
        running.log_path(job.id, rank).write_text(lines(2400, 1.0, 1))
    folder = running.log_path(job.id).parents[2]
    (folder / "steps").mkdir()
    noise = random.Random(3)
    for rank in range(4):
        took = [(18 if rank == 2 else 4) + noise.gauss(0, 0.8) for _ in range(90)]
        told = "".join(f"{time.time() - 90 + n:.1f} {ms:.3f} 12\n" for n, ms in enumerate(took))
        (folder / "steps" / f"rank{rank}.txt").write_text(told)
    (folder / "ran-in").mkdir()
    packages = "package torch 2.7.1\npackage torch-npu 2.7.1\npackage transformers 4.52.4\n"
    told = f"python 3.11.9\nexecutable /opt/conda/envs/train/bin/python\n{packages}"
    (folder / "ran-in" / "1-1.txt").write_text(told)
    other = running.running_job("bob", name="bert-finetune", device="sim:2")
    running.log_path(other.id).write_text("step 1 loss 0.7\nstep 40 loss nan\n")
    values: dict[str, float | str] = {"axis": "step", "at": 40.0}
    alerts = [
        Alert(kind="not-finite", name="loss", since=time.time() - 240, values=values),
        Alert(kind="idle-card", name="5", since=time.time() - 60, values={"minutes": 10.0}),
    ]
    keep_alerts(service.sampler.alerts_path(other.id), alerts)
    service.tag(job.id, ["paper"])
    service.tag(first.id, ["paper", "baseline"])
    service.holds.put("sim", CardRef("local", 7), by="root", why="fan is loud")
    running.submit("bob", name="llama-lora", device="sim:8")
    running.submit("ann", name="yolo-v8-nano", device="sim:4")
    use = (96, 94, 97, 95, 71, 0, 0, 0)
    service.sampler.cards = tuple(
        Card(
            kind=DeviceKind.SIM,
            id=number,
            name="Ascend 910B",
            health="OK",
            memory_used_mb=52_000 if pct else 2_100,
            memory_total_mb=64_000,
            utilisation_pct=float(pct),
            temperature_c=61.0 if pct else 38.0,
        )
        for number, pct in enumerate(use)
    )
    return {"job": job.id, "failed": failed.id, "first": first.id}


def take(page: Page, url: str, path: Path, waits_for: str, home: str) -> None:
    """One picture, once what it is about is on the page."""
    page.goto(url)
    page.locator(waits_for).first.wait_for()
    # No path of the machine that they are taken on.
    page.evaluate(
        "(home) => document.querySelectorAll('code').forEach((code) => {"
        " code.textContent = code.textContent.replace(home, '/home/ann/.jumar'); })",
        home,
    )
    page.wait_for_timeout(700)
    page.screenshot(path=path)


def pictures(browser: Browser, running: Running, folder: Path) -> None:
    """All of them."""
    ids = fill(running)
    token = running.token("root")
    shots = (
        ("overview", "/", "en", "light", DESKTOP, "h1"),
        ("jobs", "/jobs", "en", "light", DESKTOP, "h1"),
        ("job", f"/jobs/{ids['job']}", "en", "light", (1280, 1300), "#ranks rect"),
        ("job-dark", f"/jobs/{ids['failed']}", "en", "dark", DESKTOP, ".banner"),
        (
            "compare",
            f"/compare?job={ids['job']}&job={ids['first']}",
            "en",
            "light",
            DESKTOP,
            ".chart",
        ),
        ("files", f"/jobs/{ids['first']}/files?path=out/metrics.csv", "en", "light", DESKTOP, "h1"),
        ("submit", f"/submit?from={ids['job']}", "zh", "light", DESKTOP, ".ready"),
        ("admin", "/admin/cards", "zh", "light", DESKTOP, "h1"),
        ("user", "/admin/users/ann", "en", "dark", DESKTOP, "h1"),
        ("alerts", "/alerts", "zh", "dark", DESKTOP, "h1"),
        ("phone", f"/jobs/{ids['job']}", "zh", "dark", PHONE, ".chart"),
    )
    for name, address, language, scheme, (width, height), waits_for in shots:
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,  # pyright: ignore[reportArgumentType]
        )
        context.add_cookies([{"name": "jumar_session", "value": token, "url": running.url}])
        joint = "&" if "?" in address else "?"
        take(
            context.new_page(),
            f"{running.url}{address}{joint}lang={language}",
            folder / f"{name}.png",
            waits_for,
            str(running.home),
        )
        context.close()


def main() -> None:
    """Into the folder of the documentation, or another."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as home,
        serving(Path(home)) as running,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        pictures(browser, running, folder)
        browser.close()


if __name__ == "__main__":
    main()
