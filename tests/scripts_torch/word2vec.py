"""Skip-gram with negative sampling; unigram frequencies to the power of 3/4 draw the negatives."""

import random
import sys
from collections import Counter

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

random.seed(1)
torch.manual_seed(1)

corpus = """we are about to study the idea of a computational process computational processes are abstract
beings that inhabit computers as they evolve processes manipulate other abstract things called data the
evolution of a process is directed by a pattern of rules called a program people create programs to direct
processes in effect we conjure the spirits of the computer with our spells""".split()

counts = Counter(corpus)
vocab = [w for w, _ in sorted(counts.items(), key=lambda kv: (-kv[1], kv[0]))]
word_to_ix = {word: i for i, word in enumerate(vocab)}
freqs = torch.tensor([counts[w] for w in vocab], dtype=torch.float).pow(0.75)
pairs = [(corpus[i], corpus[j]) for i in range(len(corpus)) for j in range(max(0, i - 2), min(len(corpus), i + 3)) if j != i]
print(f"{len(vocab)} words, {len(pairs)} pairs")


class SkipGram(nn.Module):
    def __init__(self, vocab_size, dim):
        super().__init__()
        self.u = nn.Embedding(vocab_size, dim)
        self.v = nn.Embedding(vocab_size, dim)
        self.u.weight.data.uniform_(-0.5 / dim, 0.5 / dim)
        self.v.weight.data.zero_()

    def forward(self, center, context, negatives):
        u = self.u(center)                                     # (B, D)
        positive = F.logsigmoid((u * self.v(context)).sum(1))
        negative = F.logsigmoid(-torch.bmm(self.v(negatives), u.unsqueeze(2)).squeeze(2)).sum(1)
        return -(positive + negative).mean()


model = SkipGram(len(vocab), 10)
optimizer = optim.Adagrad(model.parameters(), lr=0.1)


def step(center, context, negatives):
    model.zero_grad()
    loss = model(center, context, negatives)
    loss.backward()
    optimizer.step()
    return loss


if "--compile" in sys.argv:
    step = torch.compile(step)

random.shuffle(pairs)
total_loss = 0.0
for i in range(20):
    batch = pairs[i * 12:(i + 1) * 12]
    center = torch.LongTensor([word_to_ix[a] for a, _ in batch])
    context = torch.LongTensor([word_to_ix[b] for _, b in batch])
    negatives = torch.multinomial(freqs, len(batch) * 4, replacement=True).view(len(batch), 4)
    loss = step(center, context, negatives)
    total_loss += loss.item()
    print("batch %d loss %.6f" % (i, loss.item()))
print(f"total {total_loss:.5f}")
embedding = F.normalize(model.u.weight.detach(), dim=1)
similar = (embedding @ embedding[word_to_ix["computer"]]).argsort(descending=True)
print("near 'computer':", [vocab[i] for i in similar[:3].tolist()])
