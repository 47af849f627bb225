"""A pointer network that sorts numbers: an LSTM encoder, a decoder that points, places that are masked once taken."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--seq_len", type=int, default=5)
parser.add_argument("--batch_size", type=int, default=16)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(31)


class Attention(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.W1 = nn.Linear(hidden_size, hidden_size, bias=False)
        self.W2 = nn.Linear(hidden_size, hidden_size, bias=False)
        self.vt = nn.Linear(hidden_size, 1, bias=False)

    def forward(self, decoder_state, encoder_outputs, mask):
        u = self.vt(torch.tanh(self.W1(encoder_outputs) + self.W2(decoder_state).unsqueeze(1))).squeeze(-1)
        return u.masked_fill(mask, float("-inf"))


class PointerNet(nn.Module):
    def __init__(self, hidden_size=16):
        super().__init__()
        self.hidden_size = hidden_size
        self.embedding = nn.Linear(1, hidden_size, bias=False)
        self.encoder = nn.LSTM(hidden_size, hidden_size, num_layers=1, batch_first=True)
        self.decoder = nn.LSTMCell(hidden_size, hidden_size)
        self.attn = Attention(hidden_size)
        self.start = nn.Parameter(torch.zeros(hidden_size))
        for name, param in self.named_parameters():
            if "weight" in name and param.dim() > 1:
                nn.init.uniform_(param, -0.3, 0.3)

    def forward(self, x, targets=None):
        batch_size, seq_len = x.shape[:2]
        embedded = self.embedding(x)
        encoder_outputs, (h, c) = self.encoder(embedded)
        h, c = h[0], c[0]
        mask = torch.zeros(batch_size, seq_len, dtype=torch.bool)
        decoder_input = self.start.unsqueeze(0).expand(batch_size, -1)
        pointer_log_scores, pointer_argmaxs = [], []
        for i in range(seq_len):
            h, c = self.decoder(decoder_input, (h, c))
            logits = self.attn(h, encoder_outputs, mask)
            log_score = F.log_softmax(logits, dim=-1)
            pick = log_score.argmax(dim=1) if targets is None else targets[:, i]
            pointer_log_scores.append(log_score)
            pointer_argmaxs.append(log_score.argmax(dim=1))
            mask = mask.scatter(1, pick.unsqueeze(1), True)
            index = pick.view(-1, 1, 1).expand(-1, 1, self.hidden_size)
            decoder_input = torch.gather(embedded, 1, index).squeeze(1)
        return torch.stack(pointer_log_scores, 1), torch.stack(pointer_argmaxs, 1)


model = PointerNet()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)


def step(seq, target):
    log_scores, argmaxs = model(seq, target)
    loss = F.nll_loss(log_scores.flatten(0, 1), target.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss, (argmaxs == target).all(dim=1).float().mean()


if args.compile:
    step = torch.compile(step)

for it in range(20):
    seq = torch.rand(args.batch_size, args.seq_len, 1)
    target = seq.squeeze(-1).sort(dim=1).indices
    loss, accuracy = step(seq, target)
    print("Iter {}: Loss: {:.6f}, sequence accuracy: {:.3f}".format(it, loss.item(), accuracy.item()))
model.eval()
with torch.no_grad():
    _, order = model(torch.tensor([[[0.7], [0.1], [0.9], [0.4], [0.2]]]))
print("order is a permutation:", sorted(order[0].tolist()) == list(range(5)))
