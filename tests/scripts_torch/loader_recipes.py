"""What a DataLoader is asked to do: own collate functions, samplers, weights, splits, concatenation, streams, workers."""

import argparse

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    random_split,
)

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(3)


class Sentences(Dataset):
    def __init__(self, count):
        self.items = [torch.randint(1, 20, (int(n),)) for n in torch.randint(2, 8, (count,))]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return {"tokens": self.items[i], "label": int(self.items[i].sum() % 3), "name": f"s{i}"}


class Counting(IterableDataset):
    def __init__(self, start, end):
        super().__init__()
        self.start, self.end = start, end

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        if info is None:
            return iter(range(self.start, self.end))
        return iter(range(self.start + info.id, self.end, info.num_workers))


class ByLength(Sampler):
    def __init__(self, lengths):
        self.lengths = lengths

    def __iter__(self):
        return iter(sorted(range(len(self.lengths)), key=self.lengths.__getitem__))

    def __len__(self):
        return len(self.lengths)


def collate(batch):
    batch.sort(key=lambda item: len(item["tokens"]), reverse=True)
    lengths = torch.tensor([len(item["tokens"]) for item in batch])
    tokens = pad_sequence([item["tokens"] for item in batch], batch_first=True)
    labels = default_collate([item["label"] for item in batch])
    return tokens, lengths, labels, [item["name"] for item in batch]


data = Sentences(30)
train, valid, rest = random_split(data, [0.6, 0.3, 0.1], generator=torch.Generator().manual_seed(1))
print(len(train), len(valid), len(rest), train.indices[:5])
embedding, rnn, head = nn.Embedding(20, 6, padding_idx=0), nn.GRU(6, 8, batch_first=True, bidirectional=True), nn.Linear(16, 3)
parameters = [*embedding.parameters(), *rnn.parameters(), *head.parameters()]
optimizer = torch.optim.AdamW(parameters, lr=0.02)


def step(tokens, lengths, labels):
    optimizer.zero_grad()
    packed = pack_padded_sequence(embedding(tokens), lengths, batch_first=True)
    out, hidden = rnn(packed)
    padded, _ = pad_packed_sequence(out, batch_first=True)
    loss = nn.functional.cross_entropy(head(padded.sum(1) / lengths.unsqueeze(1) + hidden.mean()), labels)
    loss.backward()
    optimizer.step()
    return loss


if args.compile:
    step = torch.compile(step)

for epoch in range(2):
    for tokens, lengths, labels, names in DataLoader(train, batch_size=6, shuffle=True, collate_fn=collate):
        print(f"{step(tokens, lengths, labels).item():.5f}", tuple(tokens.shape), names[0])

print("one batch", [round(step(tokens, lengths, labels).item(), 4) for _ in range(4)])
weights = [1.0 if data[i]["label"] == 0 else 0.2 for i in range(len(data))]
weighted = DataLoader(data, batch_size=8, sampler=WeightedRandomSampler(weights, 16), collate_fn=collate)
print([labels.tolist() for _, _, labels, _ in weighted])
by_length = BatchSampler(ByLength([len(t) for t in data.items]), batch_size=10, drop_last=False)
print([tokens.size(1) for tokens, *_ in DataLoader(data, batch_sampler=by_length, collate_fn=collate)])
numbers = TensorDataset(torch.arange(6), torch.linspace(0, 1, 6).double())
both = ConcatDataset([numbers, Subset(numbers, [5, 4])])
print([x.tolist() for x, _ in DataLoader(both, batch_size=3, drop_last=True, sampler=SubsetRandomSampler(range(8)))])
print(default_collate([{"a": 1, "b": [1.5, torch.ones(2)]}, {"a": 2, "b": [2.5, torch.zeros(2)]}]))
chained = ChainDataset([Counting(0, 3), Counting(10, 13)])
print([x.tolist() for x in DataLoader(chained, batch_size=4)])
print(sorted(int(x) for x in DataLoader(Counting(0, 7), batch_size=None, num_workers=0)))
generator = torch.Generator()
generator.manual_seed(7)
print(list(RandomSampler(range(5), generator=generator)), list(RandomSampler(range(3), True, 6)), list(SequentialSampler(range(3))))
print([y.dtype for _, y in DataLoader(numbers, batch_size=6)], len(DataLoader(numbers, batch_size=4)))
