"""Data sets, samplers and ``DataLoader``, as ``torch.utils.data`` has them (without its data pipes)."""

from jitgrad.utils.data._utils.collate import default_collate, default_convert
from jitgrad.utils.data._utils.worker_info import get_worker_info
from jitgrad.utils.data.dataloader import DataLoader
from jitgrad.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from jitgrad.utils.data.distributed import DistributedSampler
from jitgrad.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]
