"""At which step a value of Weights & Biases stands: the run's own count, or another metric's value."""

from typing import Any, Dict, List, Mapping, Optional, Tuple

from jumar_start.run_notes import numbers_in

Placed = List[Tuple[float, Dict[str, float]]]


class Axes:
    """The axes of one run, as `define_metric` and the steps of `log` make them."""

    def __init__(self) -> None:
        self._step = 0
        self._rules: Dict[str, str] = {}
        self._last: Dict[str, float] = {}

    def define(self, name: Any, step_metric: Any = None) -> None:
        """Metrics of this name, which may end in `*`, stand over `step_metric`."""
        axis = getattr(step_metric, "name", step_metric)
        if axis:
            self._rules[str(name)] = str(axis)

    def placed(
        self, values: Mapping[str, Any], step: Optional[int], commit: Optional[bool]
    ) -> Placed:
        """The numbers by their step. What goes back before a step that is over is not kept, as there."""
        if step is not None:
            if step < self._step:
                return []
            self._step = int(step)
        here = self._step
        if commit or (commit is None and step is None):
            self._step += 1
        numbers = dict(numbers_in(values))
        axes = set(self._rules.values())
        self._last.update((name, numbers[name]) for name in axes & set(numbers))
        groups: Dict[float, Dict[str, float]] = {}
        for name, value in numbers.items():
            if name not in axes:
                at = self._last.get(self._axis_of(name), float(here))
                groups.setdefault(at, {})[name] = value
        return list(groups.items())

    def _axis_of(self, name: str) -> str:
        if name in self._rules:
            return self._rules[name]
        fitting = [
            rule for rule in self._rules if rule.endswith("*") and name.startswith(rule[:-1])
        ]
        # The longest is the one that was meant.
        return self._rules[max(fitting, key=len)] if fitting else ""
