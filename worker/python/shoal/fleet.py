"""fleet: tables and tensors of a fleet by name."""
import ctypes
import operator
import os
import threading
import weakref
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from . import library as lib
from .errors import NotFound, UsageError

VALUES = ("fp32", "fp16", "bf16")


class Assigned(NamedTuple):
    """Keys of an assign, by what became of them."""

    made: int
    replaced: int
    kept: int
    blocked: int


def _keys(keys: ArrayLike) -> np.ndarray:
    """Keys as the library takes them: int64, the type of PyTorch, has the same bits."""
    keys = np.asarray(keys)
    if keys.dtype == np.int64:
        keys = keys.view(np.uint64)
    if keys.ndim != 1 or (keys.size and keys.dtype != np.uint64):
        raise UsageError(f"keys: an array of {keys.dtype} of shape {keys.shape}; one of uint64 or int64 with one axis is wanted")
    return np.ascontiguousarray(keys, dtype=np.uint64)


def _fits(name: str, values: np.ndarray | None, shape: tuple[int, ...]) -> None:
    if values is not None and (values.dtype != np.float32 or values.shape != shape or not values.flags.c_contiguous):
        raise UsageError(f"{name}: an array of {values.dtype} of shape {values.shape}; a contiguous one of float32 of shape {shape} is wanted")


def _filled(out: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray:
    """The array that a call fills: the caller's, or a new one."""
    if out is None:
        return np.empty(shape, np.float32)
    _fits("out", out, shape)
    if not out.flags.writeable:
        raise UsageError("out: the array may not be written")
    return out


def _close(handle: ctypes.c_void_p, process: int) -> None:
    if handle and os.getpid() == process:
        lib.function("shoal_fleet_close")(handle)
    handle.value = None


class Table:
    """A table of rows by key. width = first + dim floats are a row's weights: its first-order weight, if there is one, is the first. state: floats of its
    optimizer. values: the stored form; weights are float32 always."""

    def __init__(self, fleet: "Fleet", info: lib.TableInfo, index: int):
        self.fleet, self.name = fleet, info.name.decode()
        self._set(info, index)

    def _set(self, info: lib.TableInfo, index: int) -> None:
        self.index = index
        self.width, self.first, self.dim, self.state, self.stats = info.width, info.first, info.dim, info.state, bool(info.stats)
        self.values, self.optimizer, self.lr = VALUES[info.values], info.optimizer.decode(), info.lr

    def __repr__(self):
        return f"<shoal.Table {self.name}: {self.width} floats, {self.optimizer}>"

    def __reduce__(self):
        return operator.getitem, (self.fleet, self.name)

    def key(self, field: str, value: str | bytes | int) -> int:
        """Returns the key of a value of a field, as the readers make it. value: as it stands in the input; of a cross "a x b"."""
        data, key = value if isinstance(value, bytes) else str(value).encode(), ctypes.c_uint64()
        self.fleet.call("shoal_fleet_key", self, lib.text(field), data, len(data), ctypes.byref(key))
        return key.value

    def fetch(self, keys: ArrayLike, state: bool = False, found: bool = False, out: np.ndarray | None = None) -> np.ndarray | tuple[np.ndarray, ...]:
        """Reads rows: (count, width) floats, zeros for a key without a row. keys: uint64, or int64 with the same bits, also more than once. out: an array
        to be filled in place. state, found: True: the rows' optimizer state, (count, state), and which keys have a row, (count) bools, are returned beside
        the weights. Denied: state needs the role admin."""
        self.fleet.here()
        keys = _keys(keys)
        weights = _filled(out, (len(keys), self.width))
        states = np.empty((len(keys), self.state), np.float32) if state else None
        there = np.empty(len(keys), np.bool_) if found else None
        self.fleet.call("shoal_fetch", self, lib.address(keys), len(keys), lib.address(weights), lib.address(states), lib.address(there))
        more = [a for a in (states, there) if a is not None]
        return (weights, *more) if more else weights

    def assign(self, keys: ArrayLike, weights: ArrayLike, state: ArrayLike | None = None, keep: bool = False) -> Assigned:
        """Writes rows, each in place of what its key has. keys: each once; weights: (count, width); state: (count, state), or None: the optimizer begins
        anew. keep: a key that has a row keeps it. Returns how many were made, replaced, kept, blocked. After an error the same call again completes it.
        Denied: it needs the role admin; Busy: a job trains in the table."""
        self.fleet.here()
        keys, counts = _keys(keys), lib.AssignedCounts()
        weights = np.ascontiguousarray(weights, dtype=np.float32)
        state = None if state is None else np.ascontiguousarray(state, dtype=np.float32)
        _fits("weights", weights, (len(keys), self.width))
        _fits("state", state, (len(keys), self.state))
        self.fleet.call("shoal_assign", self, lib.address(keys), len(keys), lib.address(weights), lib.address(state), lib.KEEP if keep else 0,
                        ctypes.byref(counts))
        return Assigned(counts.made, counts.replaced, counts.kept, counts.blocked)


class Fleet:
    """A connection. coordinator: as for --coordinator, or $SHOAL_COORDINATOR; keys: a key file; space: whose tables, where a fleet has several, or
    $SHOAL_SPACE; wait: seconds without an answer after which a call is Unreachable. fleet["emb"] is a table; `with` closes it.

    Threads take turns: a call waits for that of another thread. Ctrl-C takes effect when the call under way ends, because it writes arrays until then.
    In another process, forked or by pickle, it connects anew at its first use, so a Dataset of a DataLoader may have one."""

    def __init__(self, coordinator: str | None = None, keys: str | os.PathLike | None = None, space: str | None = None, wait: float = 30.0,
                 insecure_plaintext: bool = False):
        self._words = (coordinator, keys, space, wait, insecure_plaintext)
        self.tables: dict[str, Table] = {}
        self._open()

    def _open(self) -> None:
        coordinator, keys, space, wait, insecure_plaintext = self._words
        options = lib.FleetOptions(coordinator=lib.text(coordinator), keys=lib.text(keys), space=lib.text(space), wait_ms=lib.milliseconds(wait, "wait"),
                                   insecure_plaintext=insecure_plaintext)
        self._lock, self._handle, self._process = threading.Lock(), ctypes.c_void_p(), os.getpid()
        lib.call("shoal_fleet_open", ctypes.byref(options), ctypes.byref(self._handle))
        self._end = weakref.finalize(self, _close, self._handle, self._process)
        before, self.tables = self.tables, {}
        for index in range(lib.function("shoal_fleet_tables")(self._handle)):
            info = lib.TableInfo()
            lib.call("shoal_fleet_table", self._handle, index, ctypes.byref(info))
            table = before.pop(info.name.decode(), None)
            if table is None:
                table = Table(self, info, index)
            else:
                table._set(info, index)
            self.tables[table.name] = table
        for table in before.values():
            table.index = 0xFFFFFFFF  # the library refuses it

    def __reduce__(self):
        return Fleet, self._words

    def here(self) -> None:
        """Connects anew where this is another process than the one that connected."""
        if self._process != os.getpid():
            self._open()
        if not self._handle:
            raise UsageError("the fleet was closed")

    def call(self, name: str, *arguments) -> None:
        """Calls a function of the library for this connection; a table stands for its index."""
        self.here()
        with self._lock:
            if not self._handle:
                raise UsageError("the fleet was closed")
            lib.call(name, self._handle, *[a.index if isinstance(a, Table) else a for a in arguments])

    def __getitem__(self, name: str) -> Table:
        index = ctypes.c_uint32()
        self.call("shoal_fleet_find", lib.text(name), ctypes.byref(index))
        return self.tables[name]

    @property
    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of the dense tensors by name."""
        self.here()
        shapes = {}
        for i in range(lib.function("shoal_fleet_tensors")(self._handle)):
            info = lib.TensorInfo()
            self.call("shoal_fleet_tensor", i, ctypes.byref(info))
            shapes[info.name.decode()] = tuple(info.shape[:info.rank])
        return shapes

    def read_tensor(self, name: str, out: np.ndarray | None = None) -> np.ndarray:
        """Reads a dense tensor; out: an array to be filled in place. One that no batch has trained has its initial values."""
        values = _filled(out, self._shape(name))
        self.call("shoal_tensor_read", lib.text(name), lib.address(values), values.size)
        return values

    def write_tensor(self, name: str, values: ArrayLike) -> None:
        """Writes a dense tensor; its optimizer begins anew. It needs what Table.assign needs."""
        values = np.ascontiguousarray(values, dtype=np.float32)
        _fits(name, values, self._shape(name))
        self.call("shoal_tensor_write", lib.text(name), lib.address(values), values.size)

    def _shape(self, name: str) -> tuple[int, ...]:
        shapes = self.tensors
        if name not in shapes:
            raise NotFound(f"there is no tensor {name}: there are {', '.join(shapes) or 'none'}")
        return shapes[name]

    def close(self) -> None:
        if self._process == os.getpid():  # another process has not connected yet
            with self._lock:
                self._end()

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *_) -> None:
        self.close()
