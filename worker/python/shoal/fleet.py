"""fleet: tables and tensors of a fleet by name."""
import ctypes
from collections import namedtuple

import numpy as np

from . import library as lib
from .errors import NotFound, UsageError

Assigned = namedtuple("Assigned", "made replaced kept blocked")
VALUES = ("fp32", "fp16", "bf16")


def _keys(keys):
    """Keys as the library takes them: int64, the type of PyTorch, has the same bits."""
    keys = np.asarray(keys)
    if keys.dtype == np.int64:
        keys = keys.view(np.uint64)
    if keys.ndim != 1 or (keys.size and keys.dtype != np.uint64):
        raise UsageError(f"keys: an array of {keys.dtype} of shape {keys.shape}; one of uint64 or int64 with one axis is wanted")
    return np.ascontiguousarray(keys, dtype=np.uint64)


def _fits(name, values, shape):
    if values is not None and (values.dtype != np.float32 or values.shape != shape or not values.flags.c_contiguous):
        raise UsageError(f"{name}: an array of {values.dtype} of shape {values.shape}; a contiguous one of float32 of shape {shape} is wanted")


class Table:
    """A table of rows by key. width = first + dim floats are a row's weights: its first-order weight, if there is one, is the first. state: floats of its
    optimizer. values: the stored form; weights are float32 always."""

    def __init__(self, fleet, index):
        info = lib.TableInfo()
        lib.call("shoal_fleet_table", fleet.handle, index, ctypes.byref(info))
        self.fleet, self.index, self.name = fleet, index, info.name.decode()
        self.width, self.first, self.dim, self.state, self.stats = info.width, info.first, info.dim, info.state, bool(info.stats)
        self.values, self.optimizer, self.lr = VALUES[info.values], info.optimizer.decode(), info.lr

    def __repr__(self):
        return f"<shoal.Table {self.name}: {self.width} floats, {self.optimizer}>"

    def key(self, field, value):
        """Returns the key of a value of a field, as the readers make it."""
        data, key = value if isinstance(value, bytes) else str(value).encode(), ctypes.c_uint64()
        lib.call("shoal_fleet_key", self.fleet.handle, self.index, lib.text(field), data, len(data), ctypes.byref(key))
        return key.value

    def fetch(self, keys, state=False, found=False, out=None):
        """Reads rows: (count, width) floats, zeros for a key without a row. out: an array to be filled in place. state, found: True: the rows' optimizer
        state, (count, state), and which keys have a row, (count) bools, are returned beside the weights."""
        keys = _keys(keys)
        weights = np.empty((len(keys), self.width), np.float32) if out is None else out
        _fits("out", weights, (len(keys), self.width))
        states = np.empty((len(keys), self.state), np.float32) if state else None
        there = np.empty(len(keys), np.bool_) if found else None
        lib.call("shoal_fetch", self.fleet.handle, self.index, lib.address(keys), len(keys), lib.address(weights), lib.address(states), lib.address(there))
        more = [a for a in (states, there) if a is not None]
        return (weights, *more) if more else weights

    def assign(self, keys, weights, state=None, keep=False):
        """Writes rows, each in place of what its key has. keys: each once; weights: (count, width); state: (count, state), or None: the optimizer begins
        anew. keep: a key that has a row keeps it. Returns how many were made, replaced, kept, blocked."""
        keys, counts = _keys(keys), lib.AssignedCounts()
        weights = np.ascontiguousarray(weights, dtype=np.float32)
        state = None if state is None else np.ascontiguousarray(state, dtype=np.float32)
        _fits("weights", weights, (len(keys), self.width))
        _fits("state", state, (len(keys), self.state))
        lib.call("shoal_assign", self.fleet.handle, self.index, lib.address(keys), len(keys), lib.address(weights), lib.address(state),
                 lib.KEEP if keep else 0, ctypes.byref(counts))
        return Assigned(counts.made, counts.replaced, counts.kept, counts.blocked)


class Fleet:
    """A connection. coordinator: as for --coordinator, or $SHOAL_COORDINATOR; keys: a key file; space: whose tables, where a fleet has several.
    One thread at a time uses it. fleet["emb"] is a table; `with` closes it."""

    def __init__(self, coordinator=None, keys=None, space=None, wait=30.0, insecure_plaintext=False):
        self.handle = ctypes.c_void_p()
        options = lib.FleetOptions(coordinator=lib.text(coordinator), keys=lib.text(keys), space=lib.text(space), wait_ms=max(1, int(wait * 1000)),
                                   insecure_plaintext=insecure_plaintext)
        lib.call("shoal_fleet_open", ctypes.byref(options), ctypes.byref(self.handle))
        self.tables = {t.name: t for t in (Table(self, i) for i in range(lib.function("shoal_fleet_tables")(self.handle)))}

    def __getitem__(self, name):
        index = ctypes.c_uint32()
        lib.call("shoal_fleet_find", self.handle, lib.text(name), ctypes.byref(index))
        return self.tables[name]

    @property
    def tensors(self):
        """Returns the shapes of the dense tensors by name."""
        shapes = {}
        for i in range(lib.function("shoal_fleet_tensors")(self.handle)):
            info = lib.TensorInfo()
            lib.call("shoal_fleet_tensor", self.handle, i, ctypes.byref(info))
            shapes[info.name.decode()] = tuple(info.shape[:info.rank])
        return shapes

    def read_tensor(self, name, out=None):
        """Reads a dense tensor; out: an array to be filled in place."""
        shape = self._shape(name)
        values = np.empty(shape, np.float32) if out is None else out
        _fits("out", values, shape)
        lib.call("shoal_tensor_read", self.handle, lib.text(name), lib.address(values), values.size)
        return values

    def write_tensor(self, name, values):
        values = np.ascontiguousarray(values, dtype=np.float32)
        _fits(name, values, self._shape(name))
        lib.call("shoal_tensor_write", self.handle, lib.text(name), lib.address(values), values.size)

    def _shape(self, name):
        shapes = self.tensors
        if name not in shapes:
            raise NotFound(f"there is no tensor {name}: there are {', '.join(shapes) or 'none'}")
        return shapes[name]

    def close(self):
        handle, self.handle = self.handle, ctypes.c_void_p()
        if handle:
            lib.function("shoal_fleet_close")(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
