"""shoal: a fleet's rows, and the batches of its jobs.

    shoal.Fleet            tables and tensors by name: fetch, assign
    shoal.join() -> Work   a worker of a job with model.kind: external, whose network is the script's
    shoal.Reader           the same batches from a job's files, without a fleet
    shoal.torch            modules for PyTorch; imported by `import shoal.torch` alone

Everything is done by libshoal.so.1, through ctypes. Errors are exceptions (shoal.Error)."""
try:
    import numpy as _numpy  # noqa: F401 - all modules need it
except ImportError as missing:
    raise ImportError("shoal needs numpy: apt-get install python3-numpy, or pip install numpy") from missing

from .errors import (Busy, ConfigError, DataError, Denied, Error, InternalError, IoError, NoInput, NotFinite, NotFound, OutOfMemory, Stopped, Unreachable,
                     UsageError, VersionError)
from .fleet import Assigned, Fleet, Table
from .library import version
from .read import Reader
from .work import Progress, Work, join

__all__ = ["Assigned", "Busy", "ConfigError", "DataError", "Denied", "Error", "Fleet", "InternalError", "IoError", "NoInput", "NotFinite", "NotFound",
           "OutOfMemory", "Progress", "Reader", "Stopped", "Table", "Unreachable", "UsageError", "VersionError", "Work", "join", "version"]
