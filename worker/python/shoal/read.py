"""read: the batches of a job's files, as its workers read them, without a fleet.

    for batch in shoal.Reader("job.yaml"):            # the training batches in the order of the files
    for batch in shoal.Reader("job.yaml", epochs=3):  # as a job: three epochs of training batches, each with the validation's behind it

A batch has no rows. batch.ids numbers its values' keys from 0 on, for nn.Embedding and nn.EmbeddingBag."""
import ctypes
import os
import weakref
from collections.abc import Iterator, Sequence

import numpy as np

from . import library as lib
from .batch import Batch
from .errors import NoInput


class ReadBatch(Batch):
    """ids: (values): the number of each value's key, from 0 in the order in which the reader met them; int64, as torch takes them."""

    def __init__(self, info: lib.BatchInfo, owner: object, numbers: dict[int, int]):
        super().__init__(info, owner, lambda *_: None)
        for name in ("index", "offset", "factor", "numeric"):  # the next batch has the library's memory, and a script may keep this one's
            values = getattr(self, name)
            setattr(self, name, None if values is None else values.copy())
        for table in self.tables:
            table.keys = table.keys.copy()
        self._numbers = numbers

    @property
    def ids(self) -> np.ndarray:
        numbers = self._numbers
        keys = [key for table in self.tables for key in table.keys.tolist()]
        return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)[self.index]


def _close(handle: ctypes.c_void_p, process: int) -> None:
    if os.getpid() == process:
        lib.function("shoal_read_close")(handle)


class _Input:
    """An input that is open. Its arrays keep it, so those of the last batch stay."""

    def __init__(self, options: lib.ReadOptions):
        self.handle = ctypes.c_void_p()
        lib.call("shoal_read_open", ctypes.byref(options), ctypes.byref(self.handle))
        weakref.finalize(self, _close, self.handle, os.getpid())

    def next(self) -> lib.BatchInfo | None:
        info = ctypes.POINTER(lib.BatchInfo)()
        return None if lib.call("shoal_read_next", self.handle, ctypes.byref(info)) == lib.errors.END else info.contents


class Reader:
    """job: path of a job file. split: "train", "valid" or "test". epoch: from 1 on, training batches come in the drawn order of that epoch. epochs: a
    number: the whole job, instead of one split. set: as --set of the programs. commands: the job may run commands here. Batches may be given back by done
    and fail, as those of Work: a script that runs on both is the same."""

    def __init__(self, job: str | os.PathLike, split: str = "train", epoch: int = 0, epochs: int | None = None, set: Sequence[str] = (),
                 commands: bool = False):
        self.job, self.set, self.commands = job, list(set), commands
        self.parts = [(split, epoch)] if epochs is None else [(part, e) for e in range(1, epochs + 1) for part in ("train", "valid")]
        self.numbers: dict[int, int] = {}  # key -> its number

    def __iter__(self) -> Iterator[ReadBatch]:
        for split, epoch in self.parts:
            yield from self._read(split, epoch)

    def _open(self, split: str, epoch: int) -> _Input | None:
        """None: a whole job that has no validation is read without."""
        pairs, count = lib.texts(self.set)
        try:
            return _Input(lib.ReadOptions(job=lib.text(self.job), set=pairs, set_count=count, split=lib.text(split), epoch=lib.number(epoch, "epoch") if split == "train" else 0,
                                          commands=self.commands))
        except NoInput:
            if len(self.parts) == 1 or split == "train":
                raise
            return None

    def _read(self, split: str, epoch: int) -> Iterator[ReadBatch]:
        source = self._open(split, epoch)
        while source is not None and (info := source.next()) is not None:
            batch = ReadBatch(info, source, self.numbers)
            batch.train, batch.epoch = split == "train", epoch
            yield batch

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_) -> None:
        pass
