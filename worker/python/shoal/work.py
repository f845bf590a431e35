"""work: a worker of a job whose network is this program's.

    with shoal.join() as work:
        for batch in work:
            ...                 # rows in batch.tables, labels in batch.label
            batch.done(scores)  # pushes the gradients

A batch counts once. When the process dies, however it dies, other workers get the batches that it had not given back or whose gradients were not on every
server; none is lost and none learnt twice. SIGTERM, Ctrl-C and exceptions leave the loop, and the end of `with` gives the lanes back."""
import ctypes
import signal
import threading
from collections import namedtuple

from . import errors
from . import library as lib
from .batch import Batch

SLICE_MS = 100  # of a wait in the library, between which Python sees signals
Progress = namedtuple("Progress", "batches examples acknowledged keys_pulled keys_pushed")


def _leave(number, _frame):
    raise SystemExit(128 + number)


def _apart(name, *arguments):
    """lib.call in a thread of its own, so that signals reach this one meanwhile. A signal's exception leaves the call alone: it ends with the process."""
    result = []

    def run():
        try:
            result.append(lib.call(name, *arguments))
        except BaseException as error:  # noqa: BLE001 - it is raised below
            result.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(SLICE_MS / 1000)
    if isinstance(result[0], BaseException):
        raise result[0]


class Work:
    """Made by join(). Iterating gives batches until the job is over; several threads may iterate at a time, up to `lanes`. A loop gives each batch back,
    by done or fail, before it takes the next one."""

    def __init__(self, handle):
        self._handle, self._before = handle, None
        self._out = set()  # batches that are not given back

    @property
    def job(self):
        """Returns the text of the job, as submitted."""
        return lib.function("shoal_work_job")(self._handle).decode()

    @property
    def progress(self):
        """batches and examples given back for training; acknowledged: those of the batches that are on every server."""
        counts = lib.ProgressCounts()
        lib.function("shoal_work_progress")(self._handle, ctypes.byref(counts))
        return Progress(counts.batches, counts.examples, counts.acknowledged, counts.keys_pulled, counts.keys_pushed)

    def __iter__(self):
        while True:
            batch = self.next()
            if batch is None:
                return
            yield batch
            if batch.out:
                raise errors.UsageError(f"batch {batch.number} of lane {batch.lane} was not given back: call batch.done(scores), or batch.fail(reason)")

    def next(self, wait=None):
        """Waits for the next batch, at most `wait` seconds (None: as long as it takes). None: the job is over. TimeoutError: none came."""
        info, left = ctypes.POINTER(lib.BatchInfo)(), None if wait is None else int(wait * 1000)
        while True:
            part = SLICE_MS if left is None else min(left, SLICE_MS)
            code = lib.call("shoal_work_next", self._alive(), part, ctypes.byref(info))
            if code == errors.END:
                return None
            if code != errors.AGAIN:
                batch = Batch(info.contents, self, lambda batch, reason, scores: self._give(batch, info, reason))
                self._out.add(batch)
                return batch
            if left is not None:
                left -= part
                if left <= 0:
                    raise TimeoutError(f"no batch came within {wait} s")

    def _give(self, batch, info, reason):
        self._out.discard(batch)
        if reason is None:
            lib.call("shoal_work_done", self._handle, info)
        else:
            lib.call("shoal_work_fail", self._handle, info, lib.text(reason))

    def _alive(self):
        if not self._handle:
            raise errors.Stopped("the worker was closed: its `with` is over")
        return self._handle

    def close(self):
        """Gives the lanes back, waits for what is in flight, and ends. Arrays of its batches are no more."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        for batch in self._out:
            batch.drop()
        self._out.clear()
        if handle:
            lib.function("shoal_work_close")(handle)

    def __enter__(self):
        # SIGTERM would end the process at once. A program that has a handler of its own keeps it.
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._before = signal.signal(signal.SIGTERM, _leave)
        return self

    def __exit__(self, *_):
        try:
            self.close()
        finally:
            if self._before is not None:
                signal.signal(signal.SIGTERM, self._before)
                self._before = None


def join(coordinator=None, keys=None, name=None, lanes=2, cores=0, set=(), wait=30.0, commands=False, insecure_plaintext=False):
    """Joins the newest job that waits for workers; returns when its input is read and its rows can be pulled. lanes: batches that may be out at a time; with
    two, the rows of one come while the other is computed. set: as --set of the programs, keys of the job on this machine: ["data.train=/mnt/x.csv"]."""
    pairs, count = lib.texts(set)
    options = lib.WorkOptions(coordinator=lib.text(coordinator), keys=lib.text(keys), name=lib.text(name), lanes=lanes, cores=cores, set=pairs, set_count=count,
                              wait_ms=max(1, int(wait * 1000)), commands=commands, insecure_plaintext=insecure_plaintext)
    handle = ctypes.c_void_p()
    _apart("shoal_work_join", ctypes.byref(options), ctypes.byref(handle))
    return Work(handle)
