"""errors: one exception for each code of shoal.h; its text is the library's sentence."""


class Error(Exception):
    """code: the number of enum shoal_code."""

    code: int = 0


class UsageError(Error, ValueError):
    """An argument is wrong, or a call comes at the wrong time."""

    code = 1


class DataError(Error):
    """Input that cannot be used."""

    code = 2


class NotFound(Error, LookupError):
    """No table, tensor, file, field or job of that name."""

    code = 3


class Unreachable(Error, ConnectionError):
    """The fleet does not answer within the time."""

    code = 4


class InternalError(Error):
    """A fault of the library."""

    code = 5


class IoError(Error, OSError):
    """A file cannot be read or written."""

    code = 6


class Denied(Error, PermissionError):
    """The key's role may not do this."""

    code = 7


class ConfigError(Error):
    """A job file or a setting is wrong, or does not fit the fleet."""

    code = 8


class OutOfMemory(Error, MemoryError):
    """No memory."""

    code = 9


class Busy(Error):
    """A job uses the table, or the disk is full: later it may go."""

    code = 10


class Stopped(Error):
    """The worker leaves, or was closed."""

    code = 11


class VersionError(Error):
    """Fleet and library speak no common protocol."""

    code = 12


class NotFinite(Error, ArithmeticError):
    """A number is not finite, or larger than a table stores."""

    code = 13


class NoInput(NotFound):
    """The job has no input of this kind, as no validation."""

    code = 14


AGAIN, END = 100, 101
OF_CODE: dict[int, type[Error]] = {kind.code: kind for kind in (
    UsageError, DataError, NotFound, Unreachable, InternalError, IoError, Denied, ConfigError, OutOfMemory, Busy, Stopped, VersionError, NotFinite, NoInput)}


def make(code: int, text: str) -> Error:
    """Returns the exception of a code. A code of a later library is an Error with that code."""
    error = OF_CODE.get(code, Error)(text)
    error.code = code
    return error
