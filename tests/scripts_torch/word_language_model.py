"""A word language model with LSTM, GRU, tanh and relu cells, tied weights, clipping, and truncated backpropagation."""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--emsize", type=int, default=12)
parser.add_argument("--bptt", type=int, default=6)
parser.add_argument("--clip", type=float, default=0.25)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()

TEXT = (
    "the cat sat on the mat and the dog sat on the log while the cat saw the dog and the dog saw the cat "
    "so the cat ran to the mat and the dog ran to the log and they sat and they saw and they ran"
)


class Dictionary(object):
    def __init__(self):
        self.word2idx = {}
        self.idx2word = []

    def add_word(self, word):
        if word not in self.word2idx:
            self.idx2word.append(word)
            self.word2idx[word] = len(self.idx2word) - 1
        return self.word2idx[word]


class RNNModel(nn.Module):
    def __init__(self, rnn_type, ntoken, ninp, nhid, nlayers, dropout=0.2, tie_weights=False):
        super().__init__()
        self.ntoken = ntoken
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        if rnn_type in ["LSTM", "GRU"]:
            self.rnn = getattr(nn, rnn_type)(ninp, nhid, nlayers, dropout=dropout)
        else:
            nonlinearity = {"RNN_TANH": "tanh", "RNN_RELU": "relu"}[rnn_type]
            self.rnn = nn.RNN(ninp, nhid, nlayers, nonlinearity=nonlinearity, dropout=dropout)
        self.decoder = nn.Linear(nhid, ntoken)
        if tie_weights:
            self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)
        self.rnn_type, self.nhid, self.nlayers = rnn_type, nhid, nlayers

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        output, hidden = self.rnn(emb, hidden)
        decoded = self.decoder(self.drop(output)).view(-1, self.ntoken)
        return F.log_softmax(decoded, dim=1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        if self.rnn_type == "LSTM":
            return (weight.new_zeros(self.nlayers, bsz, self.nhid), weight.new_zeros(self.nlayers, bsz, self.nhid))
        return weight.new_zeros(self.nlayers, bsz, self.nhid)


def repackage_hidden(h):
    """Wraps hidden states in new Tensors, to detach them from their history."""
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    return data.narrow(0, 0, nbatch * bsz).view(bsz, -1).t().contiguous()


def get_batch(source, i):
    seq_len = min(args.bptt, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].view(-1)


corpus = Dictionary()
ids = torch.tensor([corpus.add_word(word) for word in TEXT.split() * 2]).type(torch.int64)
train_data, val_data = batchify(ids[:64], 4), batchify(ids[64:], 2)
criterion = nn.NLLLoss()

for rnn_type, tied in (("LSTM", True), ("GRU", False), ("RNN_TANH", True), ("RNN_RELU", False)):
    torch.manual_seed(1111)
    model = RNNModel(rnn_type, len(corpus.idx2word), args.emsize, args.emsize, 2, tie_weights=tied)
    lr, best_val_loss = 2.0, None

    def step(data, targets, hidden):
        model.zero_grad()
        output, hidden = model(data, repackage_hidden(hidden))
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        with torch.no_grad():
            for p in model.parameters():
                p.add_(p.grad, alpha=-lr)
        return loss, hidden

    if args.compile:
        step = torch.compile(step)
    for epoch in range(1, 3):
        model.train()
        hidden, total_loss = model.init_hidden(4), 0.0
        for batch, i in enumerate(range(0, train_data.size(0) - 1, args.bptt)):
            data, targets = get_batch(train_data, i)
            loss, hidden = step(data, targets, hidden)
            total_loss += loss.item()
        model.eval()
        with torch.no_grad():
            hidden = model.init_hidden(2)
            output, hidden = model(val_data[:-1], hidden)
            val_loss = criterion(output, val_data[1:].reshape(-1)).item()
        print(f"{rnn_type:8s} | epoch {epoch} | loss {total_loss / (batch + 1):.5f} | ppl {math.exp(val_loss):.4f}")
        if not best_val_loss or val_loss < best_val_loss:
            best_val_loss = val_loss
        else:
            lr /= 4.0
    with torch.no_grad():
        input, hidden, words = torch.randint(len(corpus.idx2word), (1, 1), dtype=torch.long), model.init_hidden(1), []
        for _ in range(8):
            output, hidden = model(input, hidden)
            word_weights = output.squeeze().div(1.0).exp().cpu()
            word_idx = torch.multinomial(word_weights, 1)[0]
            input.fill_(word_idx)
            words.append(corpus.idx2word[word_idx])
    print(" ".join(words))
