"""read: the batches of a job's files, as its workers read them, without a fleet.

    for batch in shoal.Reader("job.yaml"):            # the training batches in the order of the files
    for batch in shoal.Reader("job.yaml", epochs=3):  # as a job: three epochs of training batches, each with the validation's behind it

A batch has no rows. batch.ids numbers its values' keys from 0 on, for nn.Embedding and nn.EmbeddingBag."""
import ctypes

import numpy as np

from . import library as lib
from .batch import Batch
from .errors import NoInput


class ReadBatch(Batch):
    """ids: (values): the number of each value's key, from 0 in the order in which the reader met them; int64, as torch takes them."""

    def __init__(self, info, owner, numbers, take_back):
        super().__init__(info, owner, take_back)
        self._numbers = numbers

    @property
    def ids(self):
        numbers = self._numbers
        keys = [key for table in self.tables for key in table.keys.tolist()]
        return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)[self.index]


class Reader:
    """job: path of a job file. split: "train", "valid" or "test". epoch: from 1 on, training batches come in the drawn order of that epoch. epochs: a
    number: the whole job, instead of one split. set: as --set of the programs. Batches may be given back by done and fail, as those of Work: a script that
    runs on both is the same."""

    def __init__(self, job, split="train", epoch=0, epochs=None, set=(), commands=False):
        self.job, self.set, self.commands = job, list(set), commands
        self.parts = [(split, epoch)] if epochs is None else [(part, e) for e in range(1, epochs + 1) for part in ("train", "valid")]
        self.numbers = {}  # key -> its number

    def __iter__(self):
        for split, epoch in self.parts:
            yield from self._read(split, epoch)

    def _open(self, split, epoch, handle):
        """False: a whole job that has no validation is read without."""
        pairs, count = lib.texts(self.set)
        options = lib.ReadOptions(job=lib.text(self.job), set=pairs, set_count=count, split=lib.text(split), epoch=epoch if split == "train" else 0,
                                  commands=self.commands)
        try:
            lib.call("shoal_read_open", ctypes.byref(options), ctypes.byref(handle))
        except NoInput:
            if len(self.parts) == 1 or split == "train":
                raise
            return False
        return True

    def _read(self, split, epoch):
        handle, info = ctypes.c_void_p(), ctypes.POINTER(lib.BatchInfo)()
        if not self._open(split, epoch, handle):
            return
        try:
            while lib.call("shoal_read_next", handle, ctypes.byref(info)) != lib.errors.END:
                batch = ReadBatch(info.contents, self, self.numbers, lambda *_: None)
                batch.train, batch.epoch = split == "train", epoch
                yield batch
        finally:
            lib.function("shoal_read_close")(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass
