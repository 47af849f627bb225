"""Denoising diffusion on points in the plane: noise schedule in buffers, time embedding, ancestral sampling."""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--timesteps", type=int, default=50)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(7)


class SinusoidalEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, t):
        half = self.dim // 2
        freqs = torch.exp(-math.log(10000) * torch.arange(half, device=t.device) / (half - 1))
        angles = t[:, None].float() * freqs[None, :]
        return torch.cat((angles.sin(), angles.cos()), dim=-1)


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.ff = nn.Linear(size, size)
        self.act = nn.SiLU()

    def forward(self, x):
        return x + self.act(self.ff(x))


class Denoiser(nn.Module):
    def __init__(self, hidden=32, emb=16):
        super().__init__()
        self.time = nn.Sequential(SinusoidalEmbedding(emb), nn.Linear(emb, hidden), nn.SiLU())
        self.inp = nn.Linear(2, hidden)
        self.blocks = nn.ModuleList(Block(hidden) for _ in range(2))
        self.out = nn.Linear(hidden, 2)

    def forward(self, x, t):
        h = self.inp(x) + self.time(t)
        for block in self.blocks:
            h = block(h)
        return self.out(h)


class NoiseScheduler(nn.Module):
    def __init__(self, num_timesteps, beta_start=1e-4, beta_end=0.02):
        super().__init__()
        betas = torch.linspace(beta_start, beta_end, num_timesteps)
        alphas = 1.0 - betas
        alphas_cumprod = torch.cumprod(alphas, dim=0)
        alphas_cumprod_prev = F.pad(alphas_cumprod[:-1], (1, 0), value=1.0)
        self.register_buffer("betas", betas)
        self.register_buffer("alphas", alphas)
        self.register_buffer("alphas_cumprod", alphas_cumprod)
        self.register_buffer("posterior_variance", betas * (1 - alphas_cumprod_prev) / (1 - alphas_cumprod))
        self.num_timesteps = num_timesteps

    def add_noise(self, x0, noise, t):
        s1 = self.alphas_cumprod[t].sqrt().reshape(-1, 1)
        s2 = (1 - self.alphas_cumprod[t]).sqrt().reshape(-1, 1)
        return s1 * x0 + s2 * noise

    def step(self, model, x, t):
        tt = torch.full((x.shape[0],), t, dtype=torch.long)
        eps = model(x, tt)
        mean = (x - self.betas[t] / (1 - self.alphas_cumprod[t]).sqrt() * eps) / self.alphas[t].sqrt()
        return mean if t == 0 else mean + self.posterior_variance[t].sqrt() * torch.randn_like(x)


angle = 2 * math.pi * torch.rand(256)
data = torch.stack([angle.cos(), angle.sin()], dim=1) + 0.05 * torch.randn(256, 2)
loader = DataLoader(TensorDataset(data), batch_size=64, shuffle=True, drop_last=True)
model, schedule = Denoiser(), NoiseScheduler(args.timesteps)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
lr_scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=20)


def train_step(batch):
    noise = torch.randn(batch.shape)
    timesteps = torch.randint(0, schedule.num_timesteps, (batch.shape[0],)).long()
    noisy = schedule.add_noise(batch, noise, timesteps)
    noise_pred = model(noisy, timesteps)
    loss = F.mse_loss(noise_pred, noise)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


if args.compile:
    train_step = torch.compile(train_step)

global_step = 0
for epoch in range(5):
    model.train()
    for (batch,) in loader:
        loss = train_step(batch)
        lr_scheduler.step()
        print(f"step {global_step} loss {loss.item():.6f} lr {lr_scheduler.get_last_lr()[0]:.6f}")
        global_step += 1

model.eval()
sample = torch.randn(16, 2)
with torch.inference_mode():
    for t in reversed(range(schedule.num_timesteps)):
        sample = schedule.step(model, sample, t)
print("sampled radius %.4f" % sample.norm(dim=1).mean())
