"""A character language model with an LSTM whose hidden state is carried from chunk to chunk."""

import argparse
import math

import torch
import torch.nn as nn

parser = argparse.ArgumentParser(description="character RNN")
parser.add_argument("--emsize", type=int, default=16)
parser.add_argument("--nhid", type=int, default=24)
parser.add_argument("--bptt", type=int, default=12)
parser.add_argument("--clip", type=float, default=0.25)
parser.add_argument("--model", default="LSTM", choices=["LSTM", "GRU"])
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()

torch.manual_seed(1111)
text = "the quick brown fox jumps over the lazy dog while the cat sleeps in the sun. " * 14
vocab = sorted(set(text))
char_to_ix = {ch: i for i, ch in enumerate(vocab)}
ids = torch.tensor([char_to_ix[ch] for ch in text], dtype=torch.long)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    data = data.narrow(0, 0, nbatch * bsz)
    return data.view(bsz, -1).t().contiguous()


def get_batch(source, i):
    seq_len = min(args.bptt, len(source) - 1 - i)
    data = source[i:i + seq_len]
    target = source[i + 1:i + 1 + seq_len].view(-1)
    return data, target


def repackage_hidden(h):
    """Wraps hidden states in new Tensors, to detach them from their history."""
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


class RNNModel(nn.Module):
    def __init__(self, rnn_type, ntoken, ninp, nhid, nlayers, dropout=0.2):
        super().__init__()
        self.ntoken = ntoken
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = getattr(nn, rnn_type)(ninp, nhid, nlayers, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        self.rnn_type, self.nhid, self.nlayers = rnn_type, nhid, nlayers
        self.init_weights()

    def init_weights(self):
        initrange = 0.1
        nn.init.uniform_(self.encoder.weight, -initrange, initrange)
        nn.init.zeros_(self.decoder.bias)
        nn.init.uniform_(self.decoder.weight, -initrange, initrange)

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        output, hidden = self.rnn(emb, hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.ntoken)
        return torch.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        if self.rnn_type == "LSTM":
            return (weight.new_zeros(self.nlayers, bsz, self.nhid), weight.new_zeros(self.nlayers, bsz, self.nhid))
        return weight.new_zeros(self.nlayers, bsz, self.nhid)


train_data = batchify(ids, 4)
model = RNNModel(args.model, len(vocab), args.emsize, args.nhid, 2)
criterion = nn.NLLLoss()
lr = 2.0


def step(data, targets, hidden):
    model.zero_grad()
    hidden = repackage_hidden(hidden)
    output, hidden = model(data, hidden)
    loss = criterion(output, targets)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
    for p in model.parameters():
        p.data.add_(p.grad, alpha=-lr)
    return loss, hidden


if args.compile:
    step = torch.compile(step)

model.train()
hidden = model.init_hidden(4)
for batch, i in enumerate(range(0, train_data.size(0) - 1, args.bptt)):
    data, targets = get_batch(train_data, i)
    loss, hidden = step(data, targets, hidden)
    print(f"| batch {batch:2d} | loss {loss.item():.6f} | ppl {math.exp(loss):8.4f}")
    if batch == 19:
        break

model.eval()
sample = [char_to_ix["t"]]
hidden = model.init_hidden(1)
with torch.no_grad():
    for _ in range(10):
        output, hidden = model(torch.tensor([[sample[-1]]]), hidden)
        weights = output.squeeze().div(0.8).exp()
        sample.append(torch.multinomial(weights, 1)[0].item())
print("".join(vocab[i] for i in sample))
