"""work: a worker of a job whose network is this program's.

    with shoal.join() as work:
        for batch in work:
            ...                 # rows in batch.tables, labels in batch.label
            batch.done(scores)  # pushes the gradients

A batch counts once. When the process dies, however it dies, other workers get the batches that it had not given back or whose gradients were not on every
server; none is lost and none learnt twice. SIGTERM, Ctrl-C and exceptions leave the loop, and the end of `with` gives the lanes back."""
import ctypes
import os
import re
import signal
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from . import errors
from . import library as lib
from .batch import Batch

SLICE_MS = 100  # of a wait in the library, between which Python sees signals


class Progress(NamedTuple):
    """batches and examples given back for training; acknowledged: those of the batches that are on every server."""

    batches: int
    examples: int
    acknowledged: int
    keys_pulled: int
    keys_pushed: int


def _leave(number, _frame):
    raise SystemExit(128 + number)


def _apart(call: Callable[[], object], give_up: Callable[[], None] | None = None) -> None:
    """Runs a call in a thread of its own, so that signals reach this one meanwhile. The exception of a signal has the call give up, and is raised when it
    has; where the call cannot, it is left alone."""
    wrong: list[BaseException] = []
    over = threading.Event()  # not Thread.join: interrupted once, it takes the thread for ended (Python 3.11)

    def run():
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - it is raised below
            wrong.append(error)
        over.set()

    threading.Thread(target=run, name="shoal", daemon=True).start()
    try:
        while not over.wait(SLICE_MS / 1000):
            pass
    except BaseException:
        if give_up is not None:
            give_up()
            while not over.wait(SLICE_MS / 1000):
                pass
        raise
    if wrong:
        raise wrong[0]


def _end(handle: ctypes.c_void_p, process: int) -> None:
    """Of a worker that was not closed: it is not used any more, or the program ends."""
    if handle and os.getpid() == process:
        lib.function("shoal_work_close")(handle)
    handle.value = None


class Work:
    """Made by join(). Iterating gives batches until the job is over; several threads may iterate at a time, up to `lanes`. A loop gives each batch back,
    by done or fail, before it takes the next one. Where a loop was left in the middle of a batch, as by Ctrl-C in a notebook, the next loop of the thread
    gives that batch back, undone; so does the end of `with`, or of the program.

    It belongs to the process that joined: a forked one joins itself."""

    def __init__(self, handle: ctypes.c_void_p):
        self._handle, self._process, self._before = handle, os.getpid(), None
        self._taken = threading.local()  # info: of a batch that next was given, and has not returned yet
        self._loops: dict[int, Batch] = {}  # thread -> the batch of its loop
        self._out: dict[Batch, threading.Thread] = {}  # batches that are not given back, and the thread that took each
        self._inside, self._closing = 0, False  # calls of next that are under way
        self._free = threading.Condition()  # of the three
        self._finalize = weakref.finalize(self, _end, handle, self._process)

    @property
    def job(self) -> str:
        """Returns the text of the job, as submitted."""
        return lib.function("shoal_work_job")(self._alive()).decode()

    @property
    def name(self) -> str:
        """Returns the job's name."""
        found = re.search(r"^job: *(.*?) *(?:#.*)?$", self.job, re.M)
        return found[1].strip("\"'") if found else ""

    @property
    def progress(self) -> Progress:
        counts = lib.ProgressCounts()
        lib.function("shoal_work_progress")(self._alive(), ctypes.byref(counts))
        return Progress(counts.batches, counts.examples, counts.acknowledged, counts.keys_pulled, counts.keys_pushed)

    def __iter__(self) -> Iterator[Batch]:
        thread = threading.get_ident()
        left = self._loops.pop(thread, None)
        if left is not None and left.out:
            left.fail("its loop was left")
        while (batch := self.next()) is not None:
            self._loops[thread] = batch
            yield batch
            if batch.out:
                raise errors.UsageError(f"batch {batch.number} of lane {batch.lane} was not given back: call batch.done(scores), or batch.fail(reason)")

    def next(self, wait: float | None = None) -> Batch | None:
        """Waits for the next batch, at most `wait` seconds (None: as long as it takes). None: the job is over. TimeoutError: none came."""
        left = None if wait is None else lib.milliseconds(wait, "wait")
        with self._free:
            self._inside += 1
        try:
            return self._next(wait, left)
        finally:
            with self._free:
                self._inside -= 1
                self._free.notify_all()

    def _next(self, wait: float | None, left: int | None) -> Batch | None:
        taken = self._taken.__dict__
        info = taken.setdefault("info", ctypes.POINTER(lib.BatchInfo)())
        while not info:  # a signal may have left this function with a batch in info
            if self._closing:
                raise errors.Stopped("the worker is being closed: its `with` is over")
            part = SLICE_MS if left is None else min(left, SLICE_MS)
            code = lib.call("shoal_work_next", self._alive(), part, ctypes.byref(info))
            if code == errors.END:
                return None
            if code == errors.AGAIN and left is not None:
                left -= part
                if left <= 0:
                    raise TimeoutError(f"no batch came within {wait} s")
        batch = Batch(info.contents, self, lambda batch, reason: self._give(batch, info, reason))
        with self._free:
            self._out[batch] = threading.current_thread()
        del taken["info"]
        return batch

    def _give(self, batch: Batch, info, reason: str | None) -> None:
        try:
            if reason is None:
                lib.call("shoal_work_done", self._alive(), info)
            else:
                lib.call("shoal_work_fail", self._alive(), info, lib.text(reason))
        finally:
            with self._free:
                self._out.pop(batch, None)
                self._free.notify_all()

    def _alive(self) -> ctypes.c_void_p:
        if self._process != os.getpid():
            raise errors.UsageError("the worker belongs to the process that joined, and this one was forked from it: call shoal.join() here")
        if not self._handle:
            raise errors.Stopped("the worker was closed: its `with` is over")
        return self._handle

    def close(self) -> None:
        """Gives the lanes back, waits for what is in flight, and ends. Arrays of its batches are no more. Batches of this thread go back undone; those of
        other threads, which may compute over their arrays, are waited for, and no thread gets another one."""
        if self._process == os.getpid():
            self._others_end()
        for batch in self._out:
            batch.drop()
        self._out.clear()
        self._loops.clear()
        if not self._finalize.detach() or self._process != os.getpid():
            return
        handle, self._handle = self._handle, ctypes.c_void_p()
        _apart(lambda: lib.function("shoal_work_close")(handle))

    def _others_end(self) -> None:
        """Waits until no other thread is inside next or has a batch. A thread that is dead gives none back."""
        own = threading.current_thread()
        with self._free:
            self._closing = True
            while self._inside or any(thread is not own and thread.is_alive() for thread in self._out.values()):
                self._free.wait(SLICE_MS / 1000)  # not longer: signals are seen in between

    def __enter__(self) -> "Work":
        # SIGTERM would end the process at once. A program that has a handler of its own keeps it.
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._before = signal.signal(signal.SIGTERM, _leave)
        return self

    def __exit__(self, *_) -> None:
        try:
            self.close()
        finally:
            if self._before is not None:
                signal.signal(signal.SIGTERM, self._before)
                self._before = None


def join(coordinator: str | None = None, keys: str | os.PathLike | None = None, name: str | None = None, lanes: int = 2, cores: int = 0,
         set: Sequence[str] = (), wait: float = 30.0, commands: bool = False, insecure_plaintext: bool = False, job: str | None = None) -> Work:
    """Joins the job that the coordinator names; returns when its input is read and its rows can be pulled. There may be no job yet: it waits for one,
    until Ctrl-C. job: the name of the job that this program is for; where several run and it got another one, it leaves with a ConfigError. coordinator: as
    for --coordinator, or $SHOAL_COORDINATOR; keys: a key file. lanes: batches that may be out at a time; with two, the rows of one come while the other is
    computed. set: as --set of the programs, keys of the job on this machine: ["data.train=/mnt/x.csv"]. wait: seconds for the coordinator's first answer.
    commands: the job may run commands here."""
    over = threading.Event()
    goes_on = lib.GOES_ON(lambda _context: not over.is_set())
    pairs, count = lib.texts(set)
    options = lib.WorkOptions(coordinator=lib.text(coordinator), keys=lib.text(keys), name=lib.text(name), lanes=lib.number(lanes, "lanes"),
                              cores=lib.number(cores, "cores"), set=pairs, set_count=count, wait_ms=lib.milliseconds(wait, "wait"), commands=commands, insecure_plaintext=insecure_plaintext, goes_on=goes_on)
    handle = ctypes.c_void_p()
    try:
        _apart(lambda: lib.call("shoal_work_join", ctypes.byref(options), ctypes.byref(handle)), over.set)
    except BaseException:
        _end(handle, os.getpid())  # it had joined in the same moment
        raise
    work = Work(handle)
    if job is not None and work.name != job:
        other = work.name
        work.close()
        raise errors.ConfigError(f"the coordinator gave this worker job {other}, and it is for job {job}: start it when {job} is the job that lacks workers")
    return work
