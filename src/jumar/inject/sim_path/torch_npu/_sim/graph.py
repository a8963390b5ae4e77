"""The graph of autograd: what a backward pass goes through, and what a call keeps for it."""

from typing import Any, Dict, List, Set, Tuple

import torch

_AccumulateGrad = torch._C._functions.AccumulateGrad
_grad: Any = torch.Tensor.grad
_grad_of: Any = _grad.__get__


class Graph:
    """What decides how a pass goes, as far as the graph shows it; and where its results go."""

    def __init__(self, outputs: Any) -> None:
        kinds: List[type] = []
        self.leaves: List[Any] = []
        seen: Set[Any] = set()
        waiting = [output.grad_fn for output in outputs if output.grad_fn is not None]
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            kind = type(node)
            kinds.append(kind)
            if kind is _AccumulateGrad:
                self.leaves.append(node.variable)
                continue
            for following, _ in node.next_functions:
                if following is not None:
                    waiting.append(following)
        self.key: Tuple[Any, ...] = (
            hash(tuple(kinds)),
            tuple(grad is None for grad in self.grads()),
        )

    def grads(self) -> List[Any]:
        """The gradients of the leaves now."""
        return [_grad_of(leaf) for leaf in self.leaves]


_saved_names: Dict[type, List[str]] = {}
next_number = torch._C._autograd._get_sequence_nr
"""The number that the next node of the graph will have."""
_hooks = torch._C._autograd._top_saved_tensors_default_hooks


def saved_since(value: Any, number: int) -> List[Any]:
    """The tensors that the graph of `value` keeps in its nodes from `number` on."""
    if _hooks(True) is not None:
        # Reading them would call the user's hooks.
        return []
    waiting = _nodes_of(value)
    seen: Set[Any] = set()
    saved: List[Any] = []
    while waiting:
        node = waiting.pop()
        kind = type(node)
        if node in seen or kind is _AccumulateGrad or node._sequence_nr() < number:
            continue
        seen.add(node)
        names = _saved_names.get(kind)
        if names is None:
            names = _saved_names[kind] = [
                name[len("_raw") :] for name in dir(kind) if name.startswith("_raw_saved_")
            ]
        saved += [getattr(node, name) for name in names]
        waiting += [following for following, _ in node.next_functions if following]
    return saved


def _nodes_of(value: Any) -> List[Any]:
    if isinstance(value, torch.Tensor):
        return [] if value.grad_fn is None else [value.grad_fn]
    if isinstance(value, (tuple, list)):
        return [node for item in value for node in _nodes_of(item)]
    return []
