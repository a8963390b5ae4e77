"""Every public name of the plug-in answers: with a behaviour, or with an error that says what it is."""

import importlib
import inspect

import torch_npu
from torch_npu._sim import absent

TABLE = absent.table()
# Importing it changes torch for the whole process.
SKIPPED = {"torch_npu.contrib.transfer_to_npu"}


def find(path):
    parts = path.split(".")
    for end in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:end])
        if module == "torch_npu" or (module in TABLE and TABLE[module].kind == "module"):
            found = importlib.import_module(module)
            for part in parts[end:]:
                found = getattr(found, part)
            return found
    raise AssertionError(path)


def refuses(call, path):
    try:
        call()
    except NotImplementedError as error:
        return path in str(error) and "simulated" in str(error)
    return False


def operator_answers(path):
    try:
        return callable(find(path))
    except AttributeError as error:
        return path in str(error) and "not simulated" in str(error)


def answers(path, row):
    if row.kind == "module":
        return inspect.ismodule(importlib.import_module(path))
    if row.kind == "operator":
        return operator_answers(path)
    found = find(path)
    if row.answer == "refused":
        return refuses(found, path)
    return row.kind == "object" or callable(found)


wrong = []
for path, row in TABLE.items():
    if path not in SKIPPED:
        try:
            if not answers(path, row):
                wrong.append(path)
        except (AttributeError, ImportError, TypeError) as error:
            wrong.append(f"{path}: {error}")
print(len(TABLE) > 1000, wrong)
assert not hasattr(torch_npu, "npu_of_no_release")
