"""Notes which Python a job really ran in, and which packages that one sees: `ran-in/ATTEMPT-PREFIX.txt`.

Every Python of every job runs this first: names of folders are all that is read, and only once for each
environment and attempt. A training never fails because of it."""

import os
import sys

FOLDER = "ran-in"
_MOST_PACKAGES = 2000


def note() -> None:
    """Write it down, unless another process of the attempt has done so."""
    try:
        _note(os.environ["JUMAR_JOB_DIR"], os.environ.get("JUMAR_ATTEMPT", "1"))
    except (OSError, UnicodeError, KeyError):
        # A full disk, a folder that was removed.
        return


def _note(job: str, attempt: str) -> None:
    folder = os.path.join(job, FOLDER)
    # Not hash(): it differs from process to process.
    mark = sum(ord(sign) * 31 ** (place % 8) for place, sign in enumerate(sys.prefix)) % 10**9
    path = os.path.join(folder, f"{attempt}-{mark}.txt")
    if os.path.exists(path):
        return
    os.makedirs(folder, exist_ok=True)
    lines = ["python " + sys.version.split()[0], "executable " + sys.executable]
    lines += ["package {} {}".format(*found) for found in sorted(_packages())[:_MOST_PACKAGES]]
    aside = f"{path}.{os.getpid()}"
    with open(aside, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    os.replace(aside, path)


def _packages():  # type: ignore[no-untyped-def]
    seen = set()
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if not name.endswith(".dist-info") or "-" not in name[:-10]:
                continue
            package, version = name[:-10].rsplit("-", 1)
            # What comes first on the path is what is imported.
            if package.lower() not in seen and "\n" not in name:
                seen.add(package.lower())
                yield package.replace("_", "-"), version
