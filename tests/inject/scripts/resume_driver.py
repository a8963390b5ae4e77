"""Runs trainings in segments, as a plan on stdin says; prints exit codes and the hash of the weights of each."""

import json
import logging
import os
import random
import sys
import warnings
from importlib import import_module

warnings.simplefilter("ignore")
os.environ["HF_HUB_OFFLINE"] = "1"


def tear(folder, seed):
    """Cut one file of the newest checkpoint, in place."""
    chosen = random.Random(seed)
    found = [
        os.path.join(here, name)
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
    codes = []
    for faults in [*case["segments"], {}]:
        torn = faults.pop("tear", None)
        codes.append(segment(lambda: script.train(folder, result, **case["options"]), **faults))
        if codes[-1] == 0:
            break
        if torn is not None:
            tear(folder, torn)
    with open(result) as file:
        return {"codes": codes, "hash": file.read()}


def main():
    plan = json.load(sys.stdin)
    import torch

    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    script = import_module(plan["script"])
    print(json.dumps([run(script, case, plan["root"]) for case in plan["cases"]]))


main()
