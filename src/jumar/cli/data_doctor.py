"""`jumar data doctor`: what is wrong with a store, and what mends it."""

import click

from jumar.cli.output import labelled, local, padded_left, print_json, say, translated, visible

_MARKS = {"ok": "ok", "warn": "warn", "fail": "FAIL", "unknown": "?"}


@click.command()
@click.argument("url")
@click.option("--write", is_flag=True, help="Also write, read and remove a small object there.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(url: str, write: bool, as_json: bool) -> int:
    """Find what keeps a store from working, or from being fast.

    Looks at proxy, name, connection, certificate, key, clock, region, the way buckets are named and
    listed, encryption, unfinished uploads and the rate of one connection. Exit code 0 if nothing
    fails, 1 otherwise.

    \b
    Example:
      jumar data doctor obs://lab/dataset --write
    """
    from jumar.cli.transfers import my_stores
    from jumar.store.checkup import Finding, examine
    from jumar.store.places import open_place

    findings: list[Finding] = []
    for finding in examine(open_place(url, my_stores()), write=write):
        findings.append(finding)
        if not as_json:
            mark = padded_left(local(_MARKS[finding.verdict]), 4)
            seen = visible(translated(finding.seen))
            say(f"{mark}  {local('{label}: {text}', label=finding.check, text=seen)}")
            if finding.fix is not None:
                say(f"      {labelled('fix', visible(translated(finding.fix)))}")
    is_well = all(finding.verdict != "fail" for finding in findings)
    if as_json:
        print_json({"well": is_well, "results": findings})
    return 0 if is_well else 1
