"""Runs trainings in segments, as a plan on stdin says; prints exit codes, the hash of the weights of each, and what
its segments told of their steps.

Cases that are `off` come first, before the hooks are there."""

import json
import logging
import os
import random
import sys
import warnings
from importlib import import_module

warnings.simplefilter("ignore")
os.environ["HF_HUB_OFFLINE"] = "1"


def tear(folders, seed):
    """Cut one file of the newest checkpoint, in place."""
    chosen = random.Random(seed)
    found = [
        os.path.join(here, name)
        for folder in folders
        for here, _, names in os.walk(folder)
        for name in names
        if name.endswith((".pt", ".pth", ".safetensors", ".ckpt"))
    ]
    if found:
        newest = max(map(os.path.getmtime, found))
        path = chosen.choice([one for one in found if os.path.getmtime(one) > newest - 0.02])
        os.truncate(path, chosen.randrange(os.path.getsize(path)))


def run(script, case, root):
    from faults_at_steps import segment

    folder = os.path.join(root, case["name"])
    result = folder + ".hash"
    os.environ["JUMAR_JOB_ID"] = case["name"]
    os.environ["JUMAR_CKPT_DIR"] = folder + ".ckpt"
    os.environ["JUMAR_JOB_DIR"] = folder + ".job"
    codes = []
    for number, faults in enumerate([*case["segments"], {}]):
        os.environ["JUMAR_ATTEMPT"] = str(number)
        torn = faults.pop("tear", None)
        train = lambda: script.train(folder, result, **case["options"])  # noqa: E731
        codes.append(segment(train, faults, case["ranks"]))
        if set(codes[-1]) == {0}:
            break
        if torn is not None:
            tear((folder, folder + ".ckpt"), torn)
    with open(result) as file:
        return {"codes": codes, "hash": file.read(), "told": told(folder + ".job", len(codes))}


def told(job, count):
    """Of their steps."""
    found = []
    for number in range(count):
        path = os.path.join(job, "steps", f"attempt-{number}.json")
        with open(path if os.path.exists(path) else os.devnull) as file:
            found.append(file.read())
    return found


def hook():
    """As sitecustomize does, but for what was imported without."""
    from jumar_start import resuming

    resuming.install()
    for name, hooks in resuming._HOOKS.items():
        if name in sys.modules:
            import_module(f"jumar_start.{hooks}").install(sys.modules[name])


def main():
    plan = json.load(sys.stdin)
    import torch

    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    root = os.environ["JUMAR_CKPT_DIR"]
    done = []
    for is_off in (True, False):
        if not is_off and os.environ.get("JUMAR_RESUME") == "off":
            hook()
        for case in plan:
            if case["off"] is is_off:
                done.append(run(import_module(case["script"]), case, root))
    print(json.dumps(done))


main()
