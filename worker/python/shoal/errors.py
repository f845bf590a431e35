"""errors: one exception for each code of shoal.h; its text is the library's sentence."""


class Error(Exception):
    """code: the number of enum shoal_code."""

    code = 0


class UsageError(Error, ValueError):
    code = 1


class DataError(Error):
    code = 2


class NotFound(Error, LookupError):
    code = 3


class Unreachable(Error, ConnectionError):
    code = 4


class InternalError(Error):
    code = 5


class IoError(Error, OSError):
    code = 6


class Denied(Error, PermissionError):
    code = 7


class ConfigError(Error):
    code = 8


class OutOfMemory(Error, MemoryError):
    code = 9


class Busy(Error):
    code = 10


class Stopped(Error):
    code = 11


class VersionError(Error):
    code = 12


class NotFinite(Error, ArithmeticError):
    code = 13


class NoInput(NotFound):
    code = 14


AGAIN, END = 100, 101
OF_CODE = {kind.code: kind for kind in (UsageError, DataError, NotFound, Unreachable, InternalError, IoError, Denied, ConfigError, OutOfMemory, Busy,
                                        Stopped, VersionError, NotFinite, NoInput)}


def make(code, text):
    """Returns the exception of a code. A code of a later library is an Error with that code."""
    error = OF_CODE.get(code, Error)(text)
    error.code = code
    return error
