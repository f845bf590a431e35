"""library: libshoal.so.1 by ctypes: the structs and functions of shoal.h.

ctypes and not cffi: it is a part of Python, so the package has no compiled part and needs no other package than numpy. The structs stand here a second
time; tests/python/test_package.py compares them with the header. A call releases Python's lock while the library works."""
import ctypes
import functools
from collections.abc import Callable, Sequence
from ctypes import CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_float, c_int, c_size_t, c_uint32, c_uint64, c_void_p

import numpy as np

from . import errors

NAME = "libshoal.so.1"
FOREVER = 0xFFFFFFFF  # a wait without a limit
TRAIN = 0  # enum shoal_batch_kind
KEEP = 1  # SHOAL_KEEP
GOES_ON = CFUNCTYPE(c_bool, c_void_p)


class ErrorText(Structure):
    """struct shoal_error"""

    _fields_ = [("code", c_int), ("text", c_char * 512)]


class Sized(Structure):
    """A struct whose first member is its size."""

    def __init__(self, **values):
        super().__init__(size=ctypes.sizeof(self), **values)


class FleetOptions(Sized):
    _fields_ = [("size", c_size_t), ("coordinator", c_char_p), ("keys", c_char_p), ("space", c_char_p), ("wait_ms", c_uint32), ("insecure_plaintext", c_bool)]


class TableInfo(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char * 64), ("width", c_uint32), ("first", c_uint32), ("dim", c_uint32), ("state", c_uint32),
                ("values", c_uint32), ("stats", c_uint32), ("optimizer", c_char * 32), ("lr", c_float)]


class AssignedCounts(Sized):
    _fields_ = [("size", c_size_t), ("made", c_uint64), ("replaced", c_uint64), ("kept", c_uint64), ("blocked", c_uint64)]


class TensorInfo(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char * 96), ("rank", c_uint32), ("shape", c_uint32 * 4), ("floats", c_size_t)]


class BatchTable(Structure):
    _fields_ = [("name", c_char * 64), ("width", c_uint32), ("first", c_uint32), ("dim", c_uint32), ("count", c_uint32), ("base", c_uint32),
                ("keys", c_void_p), ("rows", c_void_p), ("gradients", c_void_p)]


class BatchTensor(Structure):
    _fields_ = [("name", c_char * 96), ("rank", c_uint32), ("shape", c_uint32 * 4), ("floats", c_size_t), ("values", c_void_p), ("gradients", c_void_p)]


class BatchField(Structure):
    _fields_ = [("name", c_char * 64), ("table", c_uint32), ("pooling", c_uint32)]


class BatchInfo(Structure):
    """struct shoal_batch"""

    _fields_ = [("size", c_size_t), ("kind", c_uint32), ("lane", c_uint32), ("number", c_uint64), ("epoch", c_uint32), ("examples", c_uint32),
                ("fields", c_uint32), ("numerics", c_uint32), ("tasks", c_uint32), ("values", c_uint32), ("index", c_void_p), ("offset", c_void_p),
                ("factor", c_void_p), ("numeric", c_void_p), ("label", c_void_p), ("weight", c_void_p), ("tables", c_uint32), ("tensors", c_uint32),
                ("table", POINTER(BatchTable)), ("tensor", POINTER(BatchTensor)), ("field", POINTER(BatchField)), ("scores", c_void_p)]


class WorkOptions(Sized):
    _fields_ = [("size", c_size_t), ("coordinator", c_char_p), ("keys", c_char_p), ("name", c_char_p), ("lanes", c_uint32), ("cores", c_uint32),
                ("set", POINTER(c_char_p)), ("set_count", c_size_t), ("wait_ms", c_uint32), ("commands", c_bool), ("insecure_plaintext", c_bool),
                ("goes_on", GOES_ON), ("context", c_void_p)]


class ProgressCounts(Sized):
    _fields_ = [("size", c_size_t), ("batches", c_uint64), ("examples", c_uint64), ("acknowledged", c_uint64), ("keys_pulled", c_uint64),
                ("keys_pushed", c_uint64)]


class ReadOptions(Sized):
    _fields_ = [("size", c_size_t), ("job", c_char_p), ("set", POINTER(c_char_p)), ("set_count", c_size_t), ("split", c_char_p), ("epoch", c_uint32),
                ("commands", c_bool)]


E = POINTER(ErrorText)
FUNCTIONS = {  # name: result, arguments
    "shoal_version": (c_char_p, []),
    "shoal_fleet_open": (c_int, [POINTER(FleetOptions), POINTER(c_void_p), E]),
    "shoal_fleet_close": (None, [c_void_p]),
    "shoal_fleet_tables": (c_uint32, [c_void_p]),
    "shoal_fleet_table": (c_int, [c_void_p, c_uint32, POINTER(TableInfo), E]),
    "shoal_fleet_find": (c_int, [c_void_p, c_char_p, POINTER(c_uint32), E]),
    "shoal_fleet_key": (c_int, [c_void_p, c_uint32, c_char_p, c_char_p, c_size_t, POINTER(c_uint64), E]),
    "shoal_fetch": (c_int, [c_void_p, c_uint32, c_void_p, c_size_t, c_void_p, c_void_p, c_void_p, E]),
    "shoal_assign": (c_int, [c_void_p, c_uint32, c_void_p, c_size_t, c_void_p, c_void_p, c_uint32, POINTER(AssignedCounts), E]),
    "shoal_fleet_tensors": (c_uint32, [c_void_p]),
    "shoal_fleet_tensor": (c_int, [c_void_p, c_uint32, POINTER(TensorInfo), E]),
    "shoal_tensor_read": (c_int, [c_void_p, c_char_p, c_void_p, c_size_t, E]),
    "shoal_tensor_write": (c_int, [c_void_p, c_char_p, c_void_p, c_size_t, E]),
    "shoal_work_join": (c_int, [POINTER(WorkOptions), POINTER(c_void_p), E]),
    "shoal_work_job": (c_char_p, [c_void_p]),
    "shoal_work_next": (c_int, [c_void_p, c_uint32, POINTER(POINTER(BatchInfo)), E]),
    "shoal_work_done": (c_int, [c_void_p, POINTER(BatchInfo), E]),
    "shoal_work_fail": (c_int, [c_void_p, POINTER(BatchInfo), c_char_p, E]),
    "shoal_work_progress": (None, [c_void_p, POINTER(ProgressCounts)]),
    "shoal_work_close": (None, [c_void_p]),
    "shoal_read_open": (c_int, [POINTER(ReadOptions), POINTER(c_void_p), E]),
    "shoal_read_next": (c_int, [c_void_p, POINTER(POINTER(BatchInfo)), E]),
    "shoal_read_close": (None, [c_void_p]),
}


@functools.cache
def load() -> ctypes.CDLL:
    try:
        return ctypes.CDLL(NAME)
    except OSError as error:
        raise ImportError(f"{NAME} cannot be loaded ({error}): install the package libshoal1, or name the folder with it in LD_LIBRARY_PATH, "
                          "as LD_LIBRARY_PATH=build/release/bin in a built tree; after cmake --install, ldconfig finds it") from error


@functools.cache
def function(name: str) -> Callable:
    try:
        found = getattr(load(), name)
    except AttributeError:
        raise ImportError(f"{NAME} has no function {name}: it is of another version than this package; install libshoal1 and python3-shoal of the "
                          "same version") from None
    found.restype, found.argtypes = FUNCTIONS[name]
    return found


def call(name: str, *arguments) -> int:
    """Calls a function whose last parameter is the error; raises it. Returns the code: OK, AGAIN or END."""
    error = ErrorText()
    code = function(name)(*arguments, ctypes.byref(error))
    if code in (0, errors.AGAIN, errors.END):
        return code
    raise errors.make(code, error.text.decode("utf-8", "replace"))


def version() -> str:
    """Returns the library's version, as "0.3.0"."""
    return function("shoal_version")().decode()


def number(value: int, name: str) -> int:
    """Returns a number option; ctypes would take one that is out of bounds for another number."""
    if isinstance(value, int) and 0 <= value < FOREVER:
        return value
    raise errors.UsageError(f"{name}={value!r}: a whole number from 0 on is expected")


def milliseconds(seconds: float, name: str) -> int:
    """Returns a wait in seconds as the library takes it."""
    if 0 <= seconds < FOREVER // 1000:
        return max(1, int(seconds * 1000))
    raise errors.UsageError(f"{name}={seconds!r}: seconds from 0 to {FOREVER // 1000 - 1} are expected")


def text(value: object) -> bytes | None:
    """Returns a string option as the library takes it; None stays None."""
    return None if value is None else str(value).encode()


def texts(values: Sequence[object]) -> tuple[ctypes.Array, int]:
    """Returns an array of strings and its length."""
    return (c_char_p * len(values))(*[str(value).encode() for value in values]), len(values)


class _At:
    """An array of the library, for np.asarray: numpy's array keeps this object, and so its owner."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, address: int, shape: tuple[int, ...], kind: str, writable: bool, owner: object, strides: tuple[int, ...] | None):
        self.__array_interface__ = {"data": (address, not writable), "shape": shape, "typestr": kind, "strides": strides, "version": 3}
        self.owner = owner


def array(address: int | None, shape: tuple[int, ...], kind: str, writable: bool = False, owner: object = None,
          strides: tuple[int, ...] | None = None) -> np.ndarray | None:
    """Returns a numpy array over the library's memory, without a copy. None: there is no such array. kind: as "<f4"; strides: bytes, None: rows lie one
    behind the other."""
    if address:
        return np.asarray(_At(address, shape, kind, writable, owner, strides))
    return np.empty(shape, kind) if 0 in shape else None


def address(values: np.ndarray | None) -> int | None:
    """Returns the address of a numpy array's first element; None: no array."""
    return None if values is None else values.ctypes.data
