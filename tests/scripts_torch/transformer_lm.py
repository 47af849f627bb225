"""nn.Transformer as tutorials use it: positional encodings, causal masks, an encoder language model, translation."""

import argparse
import math

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(21)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.1, max_len=50):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        x = x + self.pe[: x.size(0)]
        return self.dropout(x)


class TransformerModel(nn.Module):
    def __init__(self, ntoken, d_model, nhead, d_hid, nlayers, dropout=0.1):
        super().__init__()
        self.model_type = "Transformer"
        self.pos_encoder = PositionalEncoding(d_model, dropout)
        encoder_layers = nn.TransformerEncoderLayer(d_model, nhead, d_hid, dropout)
        self.transformer_encoder = nn.TransformerEncoder(encoder_layers, nlayers)
        self.embedding = nn.Embedding(ntoken, d_model)
        self.d_model = d_model
        self.linear = nn.Linear(d_model, ntoken)
        self.init_weights()

    def init_weights(self):
        self.embedding.weight.data.uniform_(-0.1, 0.1)
        self.linear.bias.data.zero_()
        self.linear.weight.data.uniform_(-0.1, 0.1)

    def forward(self, src, src_mask=None):
        src = self.pos_encoder(self.embedding(src) * math.sqrt(self.d_model))
        if src_mask is None:
            src_mask = nn.Transformer.generate_square_subsequent_mask(len(src))
        return self.linear(self.transformer_encoder(src, src_mask))


data = torch.randint(0, 12, (37,)).cumsum(0) % 12
source = data[:36].view(3, 12).t().contiguous()
model = TransformerModel(12, 16, 2, 24, 2, 0.1)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1.0, gamma=0.95)


def step(data, targets):
    output = model(data)
    loss = criterion(output.view(-1, 12), targets)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    return loss


if args.compile:
    step = torch.compile(step)

for epoch in range(3):
    model.train()
    for i in range(0, 11, 6):
        length = min(6, len(source) - 1 - i)
        loss = step(source[i : i + length], source[i + 1 : i + 1 + length].reshape(-1))
    scheduler.step()
    print(f"| epoch {epoch} | lr {scheduler.get_last_lr()[0]:.4f} | loss {loss.item():.5f}")
model.eval()
with torch.no_grad():
    print(f"eval {criterion(model(source[:-1]).view(-1, 12), source[1:].reshape(-1)).item():.5f}")

# encoder and decoder, with padding masks and batches first
PAD = 0
transformer = nn.Transformer(16, 4, 1, 1, 32, 0.0, activation="gelu", batch_first=True, norm_first=True)
embed, head = nn.Embedding(12, 16, padding_idx=PAD), nn.Linear(16, 12)
for p in transformer.parameters():
    if p.dim() > 1:
        nn.init.xavier_uniform_(p)
optimizer = torch.optim.Adam([*transformer.parameters(), *embed.parameters(), *head.parameters()], lr=5e-3, betas=(0.9, 0.98), eps=1e-9)
src = torch.randint(1, 12, (4, 7))
src[1, 5:] = PAD
tgt = src.flip(1)
for _ in range(4):
    tgt_in, tgt_out = tgt[:, :-1], tgt[:, 1:]
    tgt_mask = torch.triu(torch.ones(6, 6), diagonal=1).type(torch.bool)
    out = transformer(
        embed(src), embed(tgt_in), tgt_mask=tgt_mask, src_key_padding_mask=src == PAD,
        tgt_key_padding_mask=tgt_in == PAD, memory_key_padding_mask=src == PAD,
    )
    loss = nn.functional.cross_entropy(head(out).transpose(1, 2), tgt_out, ignore_index=PAD, label_smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"translation {loss.item():.5f}")
