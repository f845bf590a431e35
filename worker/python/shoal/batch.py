"""batch: the examples of one batch as numpy arrays over the library's memory: nothing is copied.

The arrays live until the batch is given back (Work) or the next one is read (Reader): copy what you keep."""
import numpy as np

from . import errors
from .library import TRAIN, array


class BatchTable:
    """The unique keys of a batch in one table. keys: (count); rows and gradients: (count, width), or None without a fleet."""

    def __init__(self, info, owner):
        self.name = info.name.decode()
        self.width, self.first, self.dim, self.count, self.base = info.width, info.first, info.dim, info.count, info.base
        self.keys = array(info.keys, (info.count,), "<u8", owner=owner)
        self.rows = array(info.rows, (info.count, info.width), "<f4", owner=owner)
        self.gradients = array(info.gradients, (info.count, info.width), "<f4", True, owner)


class BatchTensor:
    """A dense tensor of the job: its values, and its gradients, which are None where nothing is trained."""

    def __init__(self, info, owner):
        self.name = info.name.decode()
        shape = tuple(info.shape[:info.rank])
        self.values = array(info.values, shape, "<f4", owner=owner)
        self.gradients = array(info.gradients, shape, "<f4", True, owner)


class BatchField:
    """A field of the examples. pooling: "sum", "mean", or "none" where its values stay in order."""

    def __init__(self, info):
        self.name, self.table, self.pooling = info.name.decode(), info.table, ("sum", "mean", "none")[info.pooling]


class Batch:
    """train: True: gradients and scores are wanted; False: scores alone. Values lie example by example, and within an example field by field: those of
    example i and field f are index[offset[i * F + f]] up to index[offset[i * F + f + 1]], with F fields; without `offset` (None) each field has one value.
    An index counts the keys of all tables, so that tables[t].base is that of the first key of table t.

    label: (examples, tasks), NaN where there is none; numeric: (examples, numbers); weight: (examples) or None; factor: (values) or None: weights in sums."""

    def __init__(self, info, owner, take_back):
        self.lane, self.number, self.epoch, self.examples = info.lane, info.number, info.epoch, info.examples
        self.train = info.kind == TRAIN
        self.fields = [BatchField(info.field[f]) for f in range(info.fields)]
        self.tables = [BatchTable(info.table[t], owner) for t in range(info.tables)]
        self.tensors = {t.name: t for t in (BatchTensor(info.tensor[i], owner) for i in range(info.tensors))}
        self.index = array(info.index, (info.values,), "<u4", owner=owner)
        self.offset = array(info.offset, (info.examples * info.fields + 1,), "<u4", owner=owner)
        self.factor = array(info.factor, (info.values,), "<f4", owner=owner)
        self.numeric = array(info.numeric, (info.examples, info.numerics), "<f4", owner=owner)
        self.label = array(info.label, (info.examples, info.tasks), "<f4", owner=owner)
        self.weight = array(info.weight, (info.examples,), "<f4", owner=owner)
        self.scores = array(info.scores, (info.examples, info.tasks), "<f4", True, owner)
        self.leaves = {}  # of shoal.torch: table -> its rows as a leaf of autograd
        self._take_back = take_back  # None: it was given back

    @property
    def bags(self):
        """Returns the starts of the bags, (examples * fields), as nn.EmbeddingBag takes them (int32)."""
        if self.offset is not None:
            return self.offset[:-1].view(np.int32)
        return np.arange(self.examples * len(self.fields), dtype=np.int32)

    @property
    def out(self):
        """True until the batch is given back."""
        return self._take_back is not None

    def table(self, name):
        for found in self.tables:
            if found.name == name:
                return found
        raise errors.NotFound(f"the job has no table {name}: there are {', '.join(t.name for t in self.tables)}")

    def done(self, scores=None):
        """Gives the batch back with its scores, (examples, tasks) or (examples) for one task, as numpy array or torch tensor; None: `scores` is filled.
        The gradients of the mean loss are pushed now, and the servers apply the tables' optimizers."""
        if scores is not None:
            scores = np.asarray(scores.detach().cpu() if hasattr(scores, "detach") else scores, dtype=np.float32)
            wanted = self.label.shape
            if scores.size != self.label.size or scores.shape[:1] != wanted[:1]:
                raise errors.UsageError(f"batch.done: scores of shape {scores.shape}; {wanted} are wanted: one for each example and label")
        self._give(None, scores)

    def fail(self, reason):
        """Gives the batch back undone: this worker or another one gets it again."""
        self._give(str(reason), None)

    def drop(self):
        """The worker is being closed, and its arrays with it: the batch cannot be given back any more."""
        self._take_back = None
        self.leaves.clear()

    def _give(self, reason, scores):
        if self._take_back is None:
            raise errors.UsageError("the batch was given back before, by done, fail or the end of its worker")
        if scores is not None and self.scores is not None:
            self.scores[...] = scores.reshape(self.scores.shape)
        take_back, self._take_back = self._take_back, None
        take_back(self, reason, scores)
        self.leaves.clear()
