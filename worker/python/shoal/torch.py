"""torch: tables as modules of PyTorch, and dense parameters on the servers.

    self.vectors = shoal.torch.EmbeddingBag("emb")     # in a module: nn.EmbeddingBag whose rows are on the fleet
    optimizer = shoal.torch.Servers(model)             # the module's own parameters are on the servers, too

A module is called with the batch. Its backward adds to the gradients of the batch's unique rows, in the library's memory; batch.done(scores) pushes them,
and the servers apply the optimizers of the job. So a gradient may be looked at, clipped or scaled between backward and done."""
import math
from collections.abc import Sequence

import numpy as np

try:
    import torch
except ImportError as missing:
    raise ImportError(f"shoal.torch needs PyTorch ({missing}): apt-get install python3-torch, or pip install torch; what is in shoal itself needs "
                      "numpy alone") from missing
from torch import nn
from torch.nn import functional

from . import errors
from .batch import Batch, BatchTable
from .library import array


def tensor(values: np.ndarray) -> torch.Tensor:
    """Returns a tensor that shares a numpy array's memory, also where numpy may only read it. uint32 becomes int32, which torch has."""
    kind = "<i4" if values.dtype == np.uint32 else values.dtype.str
    return torch.from_numpy(array(values.ctypes.data or None, values.shape, kind, True, values, values.strides))


def labels(batch: Batch, device=None) -> torch.Tensor:
    """Returns the labels, (examples, tasks)."""
    return tensor(batch.label).to(device)


def _leaf(batch: Batch, table: BatchTable) -> torch.Tensor:
    """The rows of a table as a leaf whose .grad is the library's memory: all modules that use the table add to it."""
    leaf = batch.leaves.get(table.name)
    if leaf is None:
        if table.rows is None:
            raise errors.UsageError(f"the batch has no rows of table {table.name}: shoal.Reader reads without a fleet; use shoal.join()")
        leaf = tensor(table.rows)
        if batch.train:
            leaf.requires_grad_()
            leaf.grad = tensor(table.gradients)
        batch.leaves[table.name] = leaf
    return leaf


def _columns(batch: Batch, table: str, names: Sequence[str] | None) -> list[int]:
    """Places of the fields among the batch's. names None: all of the table."""
    of_table = [f for f, field in enumerate(batch.fields) if batch.tables[field.table].name == table]
    if names is None:
        return of_table
    found = {batch.fields[f].name: f for f in of_table}
    missing = [name for name in names if name not in found]
    if missing:
        raise errors.NotFound(f"table {table} has no field {missing[0]}: there are {', '.join(found) or 'none'}")
    return [found[name] for name in names]


def _bags(batch: Batch, columns: list[int]) -> tuple[np.ndarray | None, np.ndarray]:
    """The values of some fields: their places among the batch's values (None: all), and the start of each bag, (examples * columns)."""
    fields = len(batch.fields)
    if columns == list(range(fields)):
        return None, batch.bags
    if batch.offset is None:
        places = np.arange(batch.examples)[:, None] * fields + np.array(columns)
        return places.reshape(-1), np.arange(batch.examples * len(columns), dtype=np.int32)
    starts = batch.offset[:-1].astype(np.int64).reshape(-1, fields)[:, columns].reshape(-1)
    counts = np.diff(batch.offset.astype(np.int64)).reshape(-1, fields)[:, columns].reshape(-1)
    begins = np.concatenate(([0], np.cumsum(counts)))
    places = np.arange(begins[-1]) - np.repeat(begins[:-1] - starts, counts)
    return places, begins[:-1].astype(np.int32)


class _Rows(nn.Module):
    """What modules over a table have in common. The device is that of the module: rows go there, and their gradients come back."""

    def __init__(self, table: str, device=None):
        super().__init__()
        self.table = table
        self.register_buffer("place", torch.empty(0, device=device), persistent=False)

    def extra_repr(self):
        return f"table={self.table!r}"

    def rows(self, batch: Batch) -> tuple[BatchTable, torch.Tensor]:
        """Returns the batch's table, and its rows as a tensor of autograd, (count, width)."""
        table = batch.table(self.table)
        return table, _leaf(batch, table).to(self.place.device)

    def index(self, batch: Batch, table: BatchTable, places: np.ndarray | None) -> torch.Tensor:
        """Returns the values' rows within the table."""
        index = batch.index if places is None else batch.index[places]
        index = tensor(index)
        return (index - table.base if table.base else index).to(self.place.device)


class EmbeddingBag(_Rows):
    """Sums of rows: (examples, fields, width), with width = first + dim: where the job has first-order weights, column 0 is theirs.

    fields: names, in the order that is wanted; None: all fields of the table. mode: "sum" or "mean" over the values of a field, without their weights;
    None: as the job says (weights of values, and the pooling of each field)."""

    def __init__(self, table: str, fields: Sequence[str] | None = None, mode: str | None = None, device=None):
        super().__init__(table, device)
        if mode not in (None, "sum", "mean"):
            raise errors.UsageError(f"mode {mode!r}: \"sum\", \"mean\" or None")
        self.fields, self.mode = None if fields is None else list(fields), mode

    def forward(self, batch: Batch) -> torch.Tensor:
        table, rows = self.rows(batch)
        columns = _columns(batch, self.table, self.fields)
        places, starts = _bags(batch, columns)
        index, starts = self.index(batch, table, places), tensor(starts).to(self.place.device)
        mode, factor = self.mode or "sum", None
        if self.mode is None and batch.factor is not None:
            factor = tensor(batch.factor if places is None else batch.factor[places]).to(self.place.device)
        elif self.mode is None and batch.offset is not None:
            counts = np.diff(np.append(starts.cpu().numpy(), len(index)))
            averaged = np.tile([batch.fields[f].pooling != "sum" for f in columns], batch.examples)
            shares = np.where(averaged, 1 / np.maximum(counts, 1), 1).astype(np.float32)
            factor = torch.from_numpy(np.repeat(shares, counts)).to(self.place.device)
        sums = functional.embedding_bag(index, rows, starts, mode=mode, per_sample_weights=factor)
        return sums.view(batch.examples, len(columns), table.width)


class Embedding(_Rows):
    """The rows of one field's values in their order: (examples, longest, width), zeros behind an example's last value. lengths(batch) tells how many each
    example has."""

    def __init__(self, table: str, field: str, device=None):
        super().__init__(table, device)
        self.field = field

    def forward(self, batch: Batch) -> torch.Tensor:
        table, rows = self.rows(batch)
        places, starts = _bags(batch, _columns(batch, self.table, [self.field]))
        index = self.index(batch, table, places).long()
        counts = np.diff(np.append(starts, len(index)))
        longest = int(counts.max(initial=0))
        there = torch.from_numpy(np.arange(longest) < counts[:, None]).to(self.place.device)
        padded = torch.zeros((batch.examples, longest), dtype=torch.long, device=self.place.device)
        padded[there] = index
        return functional.embedding(padded, rows) * there.unsqueeze(-1) if len(rows) else rows.new_zeros((batch.examples, longest, table.width))

    def lengths(self, batch: Batch) -> torch.Tensor:
        places, starts = _bags(batch, _columns(batch, self.table, [self.field]))
        return torch.from_numpy(np.diff(np.append(starts, len(batch.index) if places is None else len(places)))).to(self.place.device)


class Servers:
    """Dense parameters on the servers, with the place of an optimizer in a script: model.tensors of the job has one tensor for each parameter, by its name
    (describe(model) writes them), and dense_optimizer is the servers'.

    The parameters take the batch's values whenever the model is called with a batch; step() gives their gradients to the training batch of the last call,
    so a model is called with one training batch at a time. Buffers, as the running
    means of batch norm, are not parameters: each worker keeps its own."""

    def __init__(self, model: nn.Module):
        self.parameters = dict(model.named_parameters())
        self.batch = None  # the training batch that the parameters' gradients are of
        model.register_forward_pre_hook(self._take)

    @torch.no_grad()
    def _take(self, _model, inputs):
        batch = next((x for x in inputs if hasattr(x, "tensors")), None)
        if batch is None:
            raise errors.UsageError("shoal.torch.Servers: the model was called without a batch, so without values for its parameters")
        if self.batch is None:
            self._fits(batch)
        elif batch.train and self.batch is not batch and self.batch.out:
            raise errors.UsageError(f"shoal.torch.Servers: the model was called with batch {batch.number} while batch {self.batch.number} is out: give that "
                                    "one back before, or have a model for each thread")
        if batch.train:
            self.batch = batch
        for name, parameter in self.parameters.items():
            parameter.copy_(tensor(batch.tensors[name].values).view(parameter.shape))

    def _fits(self, batch):
        mine = {name: tuple(p.shape) or (1,) for name, p in self.parameters.items()}
        theirs = {name: t.values.shape for name, t in batch.tensors.items()}
        for name in [*mine, *theirs]:
            if mine.get(name) != theirs.get(name):
                raise errors.ConfigError(f"parameter {name} has the shape {mine.get(name, 'of none')} in the module and {theirs.get(name, 'of none')} in "
                                         "model.tensors of the job: shoal.torch.describe(module) writes the list")

    def zero_grad(self) -> None:
        for parameter in self.parameters.values():
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Writes the parameters' gradients into the batch, which batch.done pushes."""
        if self.batch is None:
            raise errors.UsageError("shoal.torch.Servers: step() before the model was called with a training batch")
        for name, parameter in self.parameters.items():
            if parameter.grad is not None:
                tensor(self.batch.tensors[name].gradients).copy_(parameter.grad.view(self.batch.tensors[name].values.shape))


def describe(model: nn.Module) -> str:
    """Returns the lines of model.tensors for a module's parameters. Their first values are drawn by the servers: matrices as nn.Linear draws them, scales
    of norms 1, all else 0."""
    lines = ["  tensors:"]
    for name, parameter in model.named_parameters():
        owner = model.get_submodule(name.rpartition(".")[0])
        if parameter.dim() > 1:
            init = f"{{kind: uniform, scale: {1 / math.sqrt(parameter[0].numel()):.6g}}}"
        elif name.endswith("weight") and "Norm" in type(owner).__name__:
            init = "{kind: constant, scale: 1}"
        else:
            init = "{kind: zero}"
        lines.append(f"    - {{name: {name}, shape: {list(parameter.shape) or [1]}, init: {init}}}")
    return "\n".join(lines)
