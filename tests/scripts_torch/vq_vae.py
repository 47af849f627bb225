"""A vector-quantized autoencoder: straight-through gradients, a codebook by moving averages, bits of EMA with lerp_."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(13)


class VectorQuantizer(nn.Module):
    def __init__(self, n_embed, dim, decay=0.9, eps=1e-5):
        super().__init__()
        self.dim, self.n_embed, self.decay, self.eps = dim, n_embed, decay, eps
        embed = torch.randn(dim, n_embed)
        self.register_buffer("embed", embed)
        self.register_buffer("cluster_size", torch.zeros(n_embed))
        self.register_buffer("embed_avg", embed.clone())

    def forward(self, input):
        flatten = input.reshape(-1, self.dim)
        dist = flatten.pow(2).sum(1, keepdim=True) - 2 * flatten @ self.embed + self.embed.pow(2).sum(0, keepdim=True)
        _, embed_ind = (-dist).max(1)
        embed_onehot = F.one_hot(embed_ind, self.n_embed).type(flatten.dtype)
        embed_ind = embed_ind.view(*input.shape[:-1])
        quantize = F.embedding(embed_ind, self.embed.transpose(0, 1))
        if self.training:
            self.cluster_size.data.mul_(self.decay).add_(embed_onehot.sum(0), alpha=1 - self.decay)
            embed_sum = flatten.detach().transpose(0, 1) @ embed_onehot
            self.embed_avg.data.mul_(self.decay).add_(embed_sum, alpha=1 - self.decay)
            n = self.cluster_size.sum()
            cluster_size = (self.cluster_size + self.eps) / (n + self.n_embed * self.eps) * n
            self.embed.data.copy_(self.embed_avg / cluster_size.unsqueeze(0))
        diff = (quantize.detach() - input).pow(2).mean()
        return input + (quantize - input).detach(), diff, embed_ind


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv1d(1, 8, 4, stride=2, padding=1), nn.ReLU(inplace=True), nn.Conv1d(8, 4, 3, padding=1))
        self.quantize = VectorQuantizer(8, 4)
        self.dec = nn.Sequential(nn.Conv1d(4, 8, 3, padding=1), nn.ReLU(), nn.ConvTranspose1d(8, 1, 4, stride=2, padding=1))

    def forward(self, x):
        z, diff, ind = self.quantize(self.enc(x).transpose(1, 2))
        return self.dec(z.transpose(1, 2)), diff, ind


signals = torch.sin(torch.linspace(0, 12, 16) * torch.rand(20, 1, 1) + torch.rand(20, 1, 1) * 3)
model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)


def step(x):
    model.zero_grad()
    out, latent_loss, _ = model(x)
    recon_loss = F.mse_loss(out, x)
    (recon_loss + 0.25 * latent_loss.mean()).backward()
    optimizer.step()
    return recon_loss, latent_loss


if args.compile:
    step = torch.compile(step)
for i in range(6):
    recon, latent = step(signals)
    print(f"{i} mse: {recon.item():.5f}; latent: {latent.item():.5f}")
model.eval()
with torch.no_grad():
    _, _, codes = model(signals)
print("used", codes.unique().numel(), codes[0].tolist(), f"{model.quantize.cluster_size.sum().item():.4f}")
