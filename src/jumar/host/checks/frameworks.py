"""torch, torch_npu, torchvision and MindSpore: do the versions fit, and do they import.

Versions are read without importing. Imports run in separate processes with a time limit."""

import re
from collections.abc import Iterator

from jumar.errors import BadInput
from jumar.host.findings import Check, Finding, fail, ok, unknown, warn
from jumar.host.fit import Fit, Installed, Judgement, best_torch_row, judge
from jumar.host.interpreter import NO_AUTOLOAD, Interpreter, mindspore_computes, try_imports
from jumar.host.matrix import shipped
from jumar.host.patient import Patient
from jumar.host.survey import (
    ADD_DRIVER_LIBRARIES,
    has_card,
    imported_torch,
    interpreter,
    software,
)
from jumar.host.versions import parse_or_none

_PACKAGE_OF_MODULE = {"yaml": "pyyaml", "attr": "attrs", "google": "protobuf", "absl": "absl-py"}


def torch_fit(patient: Patient) -> Iterator[Finding]:
    """torch, torch_npu, torchvision, Python and CANN fit together."""
    found = interpreter(patient)
    if isinstance(found, BadInput):
        yield unknown("no Python to inspect")
        return
    torch = parse_or_none(found.packages.get("torch"))
    if torch is None and "torch-npu" not in found.packages:
        if not _has_mindspore(found):
            yield unknown(f"neither torch nor MindSpore is installed for {found.executable}")
        return
    if "torch-npu" not in found.packages and has_card(patient):
        row = best_torch_row(shipped(), torch=torch, cann=software(patient).version)
        yield warn(
            f"torch {torch} is installed without torch_npu: it cannot use the NPUs",
            f"pip install torch_npu=={row.torch_npu}" if row else "see what fits: jumar env plan",
        )
    if torch is not None and torch.local.startswith(("cu", "rocm")) and has_card(patient):
        yield warn(
            f"torch {torch} is built for other cards",
            f"pip install torch=={str(torch).partition('+')[0]} from the index of CPU builds",
        )
    judged = [one for one in _judgements(patient, found) if "mindspore" not in one.pair]
    yield from map(_finding, judged)
    if not judged:
        yield ok(f"torch {torch}{', no NPU plugin' if has_card(patient) else ''}")


def mindspore_fit(patient: Patient) -> Iterator[Finding]:
    """MindSpore, Python and CANN fit together."""
    found = interpreter(patient)
    if not isinstance(found, BadInput):
        judged = [one for one in _judgements(patient, found) if "mindspore" in one.pair]
        yield from map(_finding, judged)


def _has_mindspore(found: Interpreter) -> bool:
    return bool({"mindspore", "mindspore-ascend"} & set(found.packages))


def _judgements(patient: Patient, found: Interpreter) -> list[Judgement]:
    here = software(patient)
    installed = Installed.of(found.version, found.packages, here.version, here.compiler)
    return judge(installed, shipped())


def _finding(judged: Judgement) -> Finding:
    if judged.fit is Fit.FITS:
        return ok(judged.text)
    if judged.fit is Fit.UNKNOWN:
        return unknown(judged.text, judged.fix)
    fix = judged.fix or "see what fits: jumar env plan"
    return warn(judged.text, fix) if judged.newer else fail(judged.text, fix)


def torch_import(patient: Patient) -> Iterator[Finding]:
    """`import torch` works, with torch_npu if installed, and sees the cards."""
    found, came = interpreter(patient), imported_torch(patient)
    if isinstance(found, BadInput) or came is None:
        return
    has_plugin = "torch-npu" in found.packages
    if came.error is None:
        yield from _seen_cards(patient, came.npus, came.npu_error, has_plugin)
        return
    if has_plugin:
        yield _broken_plugin(patient, found, came.error)
    else:
        yield fail(f"import torch: {came.error}", import_fix(patient, came.error))


def _broken_plugin(patient: Patient, found: Interpreter, error: str) -> Finding:
    limit_s = patient.limits.import_s
    alone = try_imports(
        found.executable, ("torch",), {**patient.environ, **NO_AUTOLOAD}, limit_s=limit_s
    )
    if alone.error is not None:
        return fail(f"import torch: {alone.error}", import_fix(patient, alone.error))
    sourced = software(patient).environment(patient.environ)
    if sourced:
        environ = {**patient.environ, **sourced}
        came = try_imports(found.executable, ("torch", "torch_npu"), environ, limit_s=limit_s)
        if came.error is None:
            return warn(
                f"torch_npu loads only after sourcing set_env.sh (jumar does this for its own jobs): {error}",
                import_fix(patient, error),
            )
    return fail(
        f"torch_npu does not load: {error}",
        f"{import_fix(patient, error)}"
        "   # until then, for torch alone: export TORCH_DEVICE_BACKEND_AUTOLOAD=0",
    )


def _seen_cards(
    patient: Patient, npus: int | None, error: str | None, has_plugin: bool
) -> Iterator[Finding]:
    if not has_plugin:
        yield ok("import torch works")
    elif npus:
        yield ok(f"torch and torch_npu import and see {npus} NPUs")
    elif has_card(patient):
        yield fail(
            f"torch_npu imports but sees no NPU{f': {error}' if error else ''}",
            "check the visible devices and the permissions above: npu-smi info",
        )
    else:
        yield ok("torch and torch_npu import; this machine has no NPU")


def mindspore_import(patient: Patient) -> Iterator[Finding]:
    """`import mindspore` works."""
    found = interpreter(patient)
    if isinstance(found, BadInput) or not _has_mindspore(found):
        return
    came = try_imports(
        found.executable, ("mindspore",), patient.environ, limit_s=patient.limits.import_s
    )
    if came.error is not None:
        yield fail(f"import mindspore: {came.error}", import_fix(patient, came.error))
        return
    yield ok("import mindspore works")
    limit_s = patient.limits.import_s
    computes, said = mindspore_computes(found.executable, patient.environ, limit_s=limit_s)
    if computes:
        yield ok(f"mindspore.run_check(): {said}")
    else:
        yield fail(f"mindspore.run_check(): {said}", import_fix(patient, said))


def import_fix(patient: Patient, error: str) -> str:
    """The line that most likely fixes an import error."""
    cann = software(patient).cann
    source = f"source {cann.set_env}" if cann and cann.set_env else "install CANN"
    module = re.search(r"No module named '(\w+)", error)
    if module:
        if module[1] in {"tbe", "te", "acl"}:
            return source
        return f"pip install {_PACKAGE_OF_MODULE.get(module[1], module[1])}"
    rules = (
        (r"lib(ascend_hal|drv\w*|dcmi\w*)\.so", ADD_DRIVER_LIBRARIES),
        (r"\blib\w+\.so.*cannot open shared object", source),
        (r"static TLS block", "export LD_PRELOAD=<the library in the message>"),
        (r"undefined symbol", "the versions do not fit: jumar env check"),
        (r"_ARRAY_API|NumPy 1\.x", "pip install 'numpy<2'"),
        (r"GLIBC", "use a system or Python with newer libstdc++ and glibc: jumar env create"),
        (r"in time", "check whether the disk is slow: python -X importtime -c 'import torch'"),
    )
    for pattern, fix in rules:
        if re.search(pattern, error):
            return fix
    return "create a fresh environment: jumar env create"


CHECKS = (
    Check("torch-fit", "frameworks", torch_fit),
    Check("torch-import", "frameworks", torch_import),
    Check("mindspore-fit", "frameworks", mindspore_fit),
    Check("mindspore-import", "frameworks", mindspore_import),
)
