"""The part of `jumar port` that is about `--prove`."""

import sys
from typing import TYPE_CHECKING

from jumar.cli.output import language, note, say
from jumar.cli.seconds import whole_seconds
from jumar.errors import BadInput

if TYPE_CHECKING:
    from jumar.port.records import Words
    from jumar.port.report.summary import Evidence
    from jumar.port.run import Outcome, Witness
    from jumar.port.tree import TreeResult


def witness(
    words: tuple[str, ...],
    *,
    wanted: bool,
    steps: int,
    time_limit: str,
    devices: int,
    tolerance: float,
) -> "Witness | None":
    """The witness that tries the port before it is written; None without --prove."""
    if not wanted:
        if words:
            raise BadInput(
                "a command can only be used with --prove",
                hint="write: jumar port SRC -o OUT --prove -- …",
            )
        return None
    if not words:
        raise BadInput(
            "--prove needs a training command",
            hint="put it after --, as in: jumar port SRC -o OUT --prove -- python train.py",
        )
    from jumar.inject.starting import Limits
    from jumar.trial.prove import Wish, prove

    limits = Limits(steps, whole_seconds("--time", time_limit))
    wish = Wish(words=words, limits=limits, devices=devices, tolerance=tolerance)

    def try_it(result: "TreeResult") -> "Evidence":
        return prove(result, wish, note)

    return try_it


def in_words(words: "Words") -> str:
    """One sentence of the report in the language of the terminal."""
    return words.zh if language() == "zh" else words.en


def tell_proof(outcome: "Outcome") -> None:
    """The verdict and the first difference on stdout."""
    proof = outcome.report.proof if outcome.report is not None else None
    if proof is None:
        return
    from jumar.port.report import proof_text

    say(in_words(proof_text.headline(proof)))
    for words in proof_text.details(proof):
        say(f"  {in_words(words)}")
    for place in (proof.origin, proof.difference, proof.original_failure, proof.ported_failure):
        if place is not None and place.source:
            print(f"    {place.where}  {place.source}")
    sys.stdout.flush()


def is_unproven(outcome: "Outcome") -> bool:
    """Whether a proof was requested and failed."""
    proof = outcome.report.proof if outcome.report is not None else None
    return proof is not None and not proof.equal
