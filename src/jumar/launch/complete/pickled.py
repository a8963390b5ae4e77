"""Pickles: walked operation by operation, and evaluated by a small machine of our own where what they say
is needed. Nothing is imported, called or hashed, and no length in the file is believed: a pickle that a
job wrote can do nothing here."""

import pickletools
import struct
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple, cast

from .verdict import Torn, Unclear, exactly, size_of

MOST_OPERATIONS = 20_000_000
_LONGEST_LINE = 1 << 20
_SHORT = 1 << 16
_LONGEST_NAME = 1 << 10
_MOST_OF_STATE = 10_000
_FIRST = 3
"""So many bytes has a pickle with its first operation after the number of its protocol."""
_JOBLIB = b"joblib.numpy_pickle"
_OPERATIONS: Dict[str, Any] = {operation.code: operation for operation in pickletools.opcodes}
_LENGTHS = {
    pickletools.TAKEN_FROM_ARGUMENT1: "<B",
    pickletools.TAKEN_FROM_ARGUMENT4: "<i",
    pickletools.TAKEN_FROM_ARGUMENT4U: "<I",
    pickletools.TAKEN_FROM_ARGUMENT8U: "<Q",
}


class Operation(NamedTuple):
    """`argument`: its bytes, or None where they are long; those of a line have no line end."""

    name: str
    argument: Optional[bytes]


def walk(file: BinaryIO) -> Iterator[Operation]:
    """The operations of one pickle, from where the file is up to and with STOP."""
    size = size_of(file)
    for _ in range(MOST_OPERATIONS):
        code = exactly(file, 1).decode("latin-1")
        known = _OPERATIONS.get(code)
        if known is None and file.tell() <= _FIRST:
            # Two bytes are no proof: a table of numbers may begin with them.
            raise Unclear("it begins as a pickle does, and is none")
        if known is None:
            raise Torn(f"byte {file.tell() - 1} is no operation of a pickle")
        argument = b"" if known.arg is None else _argument(file, known.arg.n, known.name, size)
        yield Operation(known.name, argument)
        if code == ".":
            return
    raise Unclear("it is too long to walk through")


def _argument(file: BinaryIO, kind: int, name: str, size: int) -> Optional[bytes]:
    if kind >= 0:
        return exactly(file, kind)
    if kind == pickletools.UP_TO_NEWLINE:
        # Two lines for a class that is named the old way.
        lines = [_line(file) for _ in range(2 if name in ("GLOBAL", "INST") else 1)]
        return b"\n".join(lines)
    form = _LENGTHS[kind]
    length = struct.unpack(form, exactly(file, struct.calcsize(form)))[0]
    if length < 0 or file.tell() + length > size:
        raise Torn("it ends inside of a value")
    if length > _SHORT:
        file.seek(length, 1)
        return None
    return exactly(file, length)


def _line(file: BinaryIO) -> bytes:
    line = file.readline(_LONGEST_LINE)
    if not line.endswith(b"\n"):
        raise (
            Torn("it ends inside of a line") if len(line) < _LONGEST_LINE else Unclear("long line")
        )
    return line[:-1]


def looks_pickled(start: bytes) -> bool:
    """Protocol 2 and later begin with the number of the protocol."""
    return len(start) >= 2 and start[0] == 0x80 and 2 <= start[1] <= 5


def walk_all(file: BinaryIO) -> None:
    """One or more pickles up to the end of the file."""
    size = size_of(file)
    while file.tell() < size:
        start = exactly(file, min(2, size - file.tell()))
        if not looks_pickled(start):
            raise Unclear("something that is no pickle follows one")
        file.seek(-2, 1)
        for operation in walk(file):
            if operation.argument is not None and operation.argument.startswith(_JOBLIB):
                raise Unclear("joblib's: arrays lie between its operations")


class Made:
    """What a call in the pickle would have made."""

    def __init__(self, what: Any, arguments: Any) -> None:
        self.what = what
        self.arguments = arguments
        self.items = Pairs()
        self.state: Any = None

    def attribute(self, name: str) -> Any:
        """A value of its state."""
        # With slots it is a pair, of which one is empty.
        state: Any = self.state
        states = cast("Tuple[Any, ...]", state) if isinstance(state, tuple) else (state,)
        # A large one that many values have in common would be searched for each of them.
        found = (
            one.get(name)
            for one in states
            if isinstance(one, Pairs) and len(one.pairs) <= _MOST_OF_STATE
        )
        return next((value for value in found if value is not None), None)


class Pairs:
    """A dictionary that hashes nothing."""

    def __init__(self) -> None:
        self.pairs: List[Tuple[Any, Any]] = []

    def get(self, name: str) -> Any:
        """The last value of a text key."""
        for key, value in reversed(self.pairs):
            if isinstance(key, str) and key == name:
                return value
        return None


class Persistent(NamedTuple):
    """What lies outside of the pickle: a storage of torch."""

    values: Any


class _Mark:
    pass


_MARK = _Mark()


def evaluate(file: BinaryIO, seen: Optional[Callable[[Persistent], None]] = None) -> Any:
    """What the next pickle holds; `seen` hears of each persistent value."""
    machine = _Machine(seen)
    try:
        for operation in walk(file):
            machine.do(operation)
        return machine.stack[-1]
    except (IndexError, KeyError, ValueError, struct.error) as error:
        raise Torn("it is no pickle that makes sense") from error


class _Machine:
    def __init__(self, seen: Optional[Callable[[Persistent], None]]) -> None:
        self.stack: List[Any] = []
        self.memo: Dict[int, Any] = {}
        self._seen = seen

    def do(self, operation: Operation) -> None:
        """One step."""
        name, argument = operation
        if name in _VALUES:
            self.stack.append(_VALUES[name](argument) if argument is not None else None)
        elif name in _PUT:
            self.memo[_number(name, argument)] = self.stack[-1]
        elif name in _GET:
            self.stack.append(self.memo[_number(name, argument)])
        elif name not in ("PROTO", "FRAME", "STOP", "READONLY_BUFFER"):
            getattr(self, "_" + name.lower(), self._unclear)()

    def _unclear(self) -> None:
        raise Unclear("it uses operations that checkpoints do not")

    def _down_to_mark(self) -> List[Any]:
        for at in range(len(self.stack) - 1, -1, -1):
            if self.stack[at] is _MARK:
                found = self.stack[at + 1 :]
                del self.stack[at:]
                return found
        raise Torn("it is no pickle that makes sense")

    def _memoize(self) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def _mark(self) -> None:
        self.stack.append(_MARK)

    def _pop(self) -> None:
        self.stack.pop()

    def _pop_mark(self) -> None:
        self._down_to_mark()

    def _dup(self) -> None:
        self.stack.append(self.stack[-1])

    def _tuple(self) -> None:
        self.stack.append(tuple(self._down_to_mark()))

    def _last(self, count: int) -> None:
        if len(self.stack) < count:
            raise Torn("it is no pickle that makes sense")
        self.stack[-count:] = [tuple(self.stack[-count:])]

    def _tuple1(self) -> None:
        self._last(1)

    def _tuple2(self) -> None:
        self._last(2)

    def _tuple3(self) -> None:
        self._last(3)

    def _list(self) -> None:
        self.stack.append(self._down_to_mark())

    _frozenset = _list

    def _extend(self, values: List[Any]) -> None:
        target: Any = self.stack[-1]
        if isinstance(target, list):
            cast("List[Any]", target).extend(values)

    def _append(self) -> None:
        self._extend([self.stack.pop()])

    def _appends(self) -> None:
        self._extend(self._down_to_mark())

    _additems = _appends

    def _dict(self) -> None:
        values = self._down_to_mark()
        made = Pairs()
        made.pairs.extend(zip(values[::2], values[1::2]))
        self.stack.append(made)

    def _store(self, pairs: List[Tuple[Any, Any]]) -> None:
        target = self.stack[-1]
        if isinstance(target, Made):
            target = target.items
        if isinstance(target, Pairs):
            target.pairs.extend(pairs)

    def _setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._store([(key, value)])

    def _setitems(self) -> None:
        values = self._down_to_mark()
        self._store(list(zip(values[::2], values[1::2])))

    def _stack_global(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        # What is put together may be put together again, and double each time.
        is_name = all(isinstance(one, str) and len(one) < _LONGEST_NAME for one in (module, name))
        self.stack.append(f"{module}.{name}" if is_name else None)

    def _reduce(self) -> None:
        arguments, what = self.stack.pop(), self.stack.pop()
        self.stack.append(Made(what, arguments))

    _newobj = _reduce

    def _newobj_ex(self) -> None:
        self.stack.pop()
        self._reduce()

    def _build(self) -> None:
        state = self.stack.pop()
        if isinstance(self.stack[-1], Made):
            self.stack[-1].state = state

    def _binpersid(self) -> None:
        found = Persistent(self.stack.pop())
        if self._seen is not None:
            self._seen(found)
        self.stack.append(found)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _whole(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _line_number(data: bytes) -> Any:
    # Protocol 0 and 1; 01 and 00 are the truth values.
    return data == b"01" if data in (b"00", b"01") else int(data[:32])


_VALUES: Dict[str, Callable[[bytes], Any]] = {
    "NONE": lambda data: None,
    "NEWTRUE": lambda data: True,
    "NEWFALSE": lambda data: False,
    "EMPTY_DICT": lambda data: Pairs(),
    "EMPTY_LIST": lambda data: [],
    "EMPTY_SET": lambda data: [],
    "EMPTY_TUPLE": lambda data: (),
    "INT": _line_number,
    "BININT": _whole,
    "BININT1": lambda data: data[0],
    "BININT2": lambda data: int.from_bytes(data, "little"),
    "LONG1": _whole,
    "LONG4": _whole,
    "BINFLOAT": lambda data: struct.unpack(">d", data)[0],
    "SHORT_BINUNICODE": _text,
    "BINUNICODE": _text,
    "BINUNICODE8": _text,
    "SHORT_BINSTRING": lambda data: data,
    "BINSTRING": lambda data: data,
    "SHORT_BINBYTES": lambda data: data,
    "BINBYTES": lambda data: data,
    "BINBYTES8": lambda data: data,
    "BYTEARRAY8": lambda data: data,
    "GLOBAL": lambda data: data.decode("utf-8", "replace").replace("\n", ".", 1),
    "EXT1": lambda data: None,
    "EXT2": lambda data: None,
    "EXT4": lambda data: None,
}
_PUT = {"PUT", "BINPUT", "LONG_BINPUT"}
_GET = {"GET", "BINGET", "LONG_BINGET"}


def _number(name: str, argument: Optional[bytes]) -> int:
    if argument is None:
        raise Torn("it is no pickle that makes sense")
    return int(argument[:32]) if name in ("PUT", "GET") else int.from_bytes(argument, "little")
