"""A tagger with a bidirectional GRU over packed sequences of different lengths, and a collate function."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(15)


class Runs(Dataset):
    """Tag each symbol by whether it is the same as the one before, smaller, or larger."""

    def __init__(self, n):
        self.items = []
        for i in range(n):
            words = torch.randint(1, 8, (3 + i % 4,))
            change = torch.diff(words, prepend=words[:1])
            self.items.append((words, torch.sign(change) + 1))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    batch.sort(key=lambda item: len(item[0]), reverse=True)
    words, tags = zip(*batch)
    lengths = torch.as_tensor([len(w) for w in words])
    return pad_sequence(words, batch_first=True), lengths, pad_sequence(tags, batch_first=True, padding_value=-100)


class Tagger(nn.Module):
    def __init__(self, vocab=8, dim=8, hidden=10, tags=3):
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim, padding_idx=0)
        self.rnn = nn.GRU(dim, hidden, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, tags)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(self.embedding(words), lengths, batch_first=True)
        out, hidden = self.rnn(packed)
        out, _ = pad_packed_sequence(out, batch_first=True)
        return self.fc(out)


loader = DataLoader(Runs(80), batch_size=8, collate_fn=collate)
model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)


def step(words, lengths, tags):
    optimizer.zero_grad()
    logits = model(words, lengths)
    loss = F.cross_entropy(logits.transpose(1, 2), tags, ignore_index=-100)
    loss.backward()
    optimizer.step()
    return loss, logits


if args.compile:
    step = torch.compile(step)

for epoch in range(2):
    for words, lengths, tags in loader:
        loss, logits = step(words, lengths, tags)
        right = (logits.argmax(-1) == tags)[tags != -100].float().mean()
        print(f"epoch {epoch} lengths {lengths.tolist()} loss {loss.item():.6f} accuracy {right.item():.4f}")
print("row of padding", model.embedding.weight[0].abs().sum().item())
