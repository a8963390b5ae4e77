"""Messages of torch and Python, and a network, for the cases of checks."""

NET = """import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        {init}
    def forward(self, x):
        {body}
        return self.fc(x)
"""


def network(init: str = "pass", body: str = "pass") -> str:
    return NET.format(init=init, body=body)


NAN = "ValueError: loss is nan, stopping the training"
SHAPE = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x128 and 32x3)"
GRAD = "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn"
MEMORY = "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 4194304 bytes. Error code 12 (Cannot allocate memory)"
TUPLE = "TypeError: 'tuple' object is not callable"
NO_LEN = "TypeError: object of type 'NoneType' has no len()"
EMPTY = "ValueError: optimizer got an empty parameter list"
DIVIDED = "ZeroDivisionError: division by zero"
AMBIGUOUS = "RuntimeError: Boolean value of Tensor with more than one value is ambiguous"
COUNT = "ValueError: too many values to unpack (expected 2)"

Case = tuple[dict[str, str], str, tuple[str, ...], str]
