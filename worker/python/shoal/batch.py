"""batch: the examples of one batch as numpy arrays over the library's memory: nothing but labels and weights is copied.

The arrays live until the batch is given back (Work) or the next one is read (Reader): copy what you keep."""
from collections.abc import Callable

import numpy as np

from . import errors
from .library import TRAIN, BatchInfo, array


class Lent:
    """An object whose arrays are the library's. Once they are taken back they are no attributes any more, and asking for one tells why."""

    LENT: tuple[str, ...] = ()

    def take(self) -> None:
        for name in self.LENT:
            self.__dict__.pop(name, None)

    def __getattr__(self, name):
        if name in self.LENT:
            raise errors.UsageError(f"{name}: the batch was given back, and its arrays with it: copy what you keep before")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class BatchTable(Lent):
    """The unique keys of a batch in one table. keys: (count); rows and gradients: (count, width), or None without a fleet."""

    LENT = ("keys", "rows", "gradients")

    def __init__(self, info, owner: object):
        self.name: str = info.name.decode()
        self.width, self.first, self.dim, self.count, self.base = info.width, info.first, info.dim, info.count, info.base
        self.keys = array(info.keys, (info.count,), "<u8", owner=owner)
        self.rows = array(info.rows, (info.count, info.width), "<f4", owner=owner)
        self.gradients = array(info.gradients, (info.count, info.width), "<f4", True, owner)


class BatchTensor(Lent):
    """A dense tensor of the job: its values, and its gradients, which are None where nothing is trained."""

    LENT = ("values", "gradients")

    def __init__(self, info, owner: object):
        self.name: str = info.name.decode()
        shape = tuple(info.shape[:info.rank])
        self.values = array(info.values, shape, "<f4", owner=owner)
        self.gradients = array(info.gradients, shape, "<f4", True, owner)


class BatchField:
    """A field of the examples. table: its place among the batch's; pooling: "sum", "mean", or "none" where its values stay in order."""

    def __init__(self, info):
        self.name: str = info.name.decode()
        self.table: int = info.table
        self.pooling = ("sum", "mean", "none")[info.pooling]


class Batch(Lent):
    """train: True: gradients and scores are wanted; False: scores alone. Values lie example by example, and within an example field by field: those of
    example i and field f are index[offset[i * F + f]] up to index[offset[i * F + f + 1]], with F fields; without `offset` (None) each field has one value.
    An index counts the keys of all tables, so that tables[t].base is that of the first key of table t.

    label: (examples, tasks), NaN where there is none; numeric: (examples, numbers); weight: (examples) or None; factor: (values) or None: weights in sums.
    scores: (examples, tasks), to be filled; None without a fleet."""

    LENT = ("index", "offset", "factor", "numeric", "label", "weight", "scores")

    def __init__(self, info: BatchInfo, owner: object, take_back: Callable[["Batch", str | None], None]):
        self.lane, self.number, self.epoch, self.examples = info.lane, info.number, info.epoch, info.examples
        self.train = info.kind == TRAIN
        self.fields = [BatchField(info.field[f]) for f in range(info.fields)]
        self.tables = [BatchTable(info.table[t], owner) for t in range(info.tables)]
        self.tensors = {t.name: t for t in (BatchTensor(info.tensor[i], owner) for i in range(info.tensors))}
        self.index = array(info.index, (info.values,), "<u4", owner=owner)
        self.offset = array(info.offset, (info.examples * info.fields + 1,), "<u4", owner=owner)
        self.factor = array(info.factor, (info.values,), "<f4", owner=owner)
        self.numeric = array(info.numeric, (info.examples, info.numerics), "<f4", owner=owner)
        # often kept by a script, for its measures: arrays of their own, whose numbers stay
        self.label = array(info.label, (info.examples, info.tasks), "<f4", owner=owner).copy()
        self.weight = array(info.weight, (info.examples,), "<f4", owner=owner)
        if self.weight is not None:
            self.weight = self.weight.copy()
        self.scores = array(info.scores, (info.examples, info.tasks), "<f4", True, owner)
        self.leaves: dict = {}  # of shoal.torch: table -> its rows as a leaf of autograd
        self._take_back = take_back  # None: it was given back

    @property
    def bags(self) -> np.ndarray:
        """Returns the starts of the bags, (examples * fields), as nn.EmbeddingBag takes them (int32)."""
        if self.offset is not None:
            return self.offset[:-1].view(np.int32)
        return np.arange(self.examples * len(self.fields), dtype=np.int32)

    @property
    def out(self) -> bool:
        """True until the batch is given back."""
        return self._take_back is not None

    def table(self, name: str) -> BatchTable:
        for found in self.tables:
            if found.name == name:
                return found
        raise errors.NotFound(f"the job has no table {name}: there are {', '.join(t.name for t in self.tables)}")

    def done(self, scores=None) -> None:
        """Gives the batch back with its scores, (examples, tasks) or (examples) for one task, as numpy array or torch tensor; None: `scores` is filled.
        The gradients of the mean loss are pushed now, and the servers apply the tables' optimizers."""
        self._is_out()
        if scores is not None:
            scores = np.asarray(scores.detach().cpu() if hasattr(scores, "detach") else scores, dtype=np.float32)
            wanted = self.label.shape
            if scores.size != self.label.size or scores.shape[:1] != wanted[:1]:
                raise errors.UsageError(f"batch.done: scores of shape {scores.shape}; {wanted} are wanted: one for each example and label")
            if self.scores is not None:
                self.scores[...] = scores.reshape(wanted)
        if self.train:
            self._gather()
        self._give(None)

    def _gather(self) -> None:
        """Autograd may put another tensor into a leaf's .grad than the one over the library's memory, as backward(create_graph=True) does, and so may a
        script: what counts is what .grad is now."""
        for name, leaf in self.leaves.items():
            gradients = self.table(name).gradients
            if leaf.grad is None:
                gradients[...] = 0
            elif leaf.grad.data_ptr() != gradients.ctypes.data:
                gradients[...] = leaf.grad.detach().cpu().numpy()
                leaf.grad = None  # with create_graph it and the leaf would keep one another

    def fail(self, reason: object) -> None:
        """Gives the batch back undone: this worker or another one gets it again."""
        self._is_out()
        self._give(str(reason))

    def drop(self) -> None:
        """The library has taken the arrays back: the batch is at its end, whatever its owner still wants of it."""
        self._take_back = None
        self.leaves.clear()
        self.take()
        for part in [*self.tables, *self.tensors.values()]:
            part.take()

    def _is_out(self) -> None:
        if self._take_back is None:
            raise errors.UsageError("the batch was given back before, by done, fail or the end of its worker")

    def _give(self, reason: str | None) -> None:
        take_back = self._take_back
        self.drop()
        take_back(self, reason)
