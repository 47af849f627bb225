"""A speech enhancement baseline: a network estimates a mask for the short-time spectrum of a noisy signal."""

import argparse

import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=12)
parser.add_argument("--n-fft", type=int, default=64)
parser.add_argument("--hop", type=int, default=16)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(1)
window = torch.hann_window(args.n_fft)


def chirps(batch, length=512):
    t = torch.arange(length) / length
    f0, f1 = 5 + 20 * torch.rand(batch, 1), 20 + 60 * torch.rand(batch, 1)
    envelope = torch.exp(-((t - 0.5) ** 2) / 0.08)
    return envelope * torch.sin(2 * torch.pi * (f0 * t + 0.5 * (f1 - f0) * t**2))


def si_sdr(estimate, target):
    estimate = estimate - estimate.mean(-1, keepdim=True)
    target = target - target.mean(-1, keepdim=True)
    scale = (estimate * target).sum(-1, keepdim=True) / target.pow(2).sum(-1, keepdim=True)
    noise = estimate - scale * target
    return 10 * torch.log10((scale * target).pow(2).sum(-1) / noise.pow(2).sum(-1))


class MaskNet(nn.Module):
    def __init__(self, bins, hidden=48):
        super().__init__()
        self.norm = nn.LayerNorm(bins)
        self.net = nn.Sequential(
            nn.Conv1d(bins, hidden, 3, padding=1), nn.ReLU(), nn.Conv1d(hidden, hidden, 3, padding=1), nn.ReLU(),
            nn.Conv1d(hidden, bins, 1), nn.Sigmoid(),
        )

    def forward(self, wave):
        spec = torch.stft(wave, args.n_fft, hop_length=args.hop, window=window, return_complex=True)
        magnitude = torch.log1p(spec.abs())
        mask = self.net(self.norm(magnitude.transpose(1, 2)).transpose(1, 2))
        return torch.istft(spec * mask, args.n_fft, hop_length=args.hop, window=window, length=wave.shape[-1]), mask


model = MaskNet(args.n_fft // 2 + 1)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)


def step(noisy, clean):
    optimizer.zero_grad()
    estimate, mask = model(noisy)
    loss = -si_sdr(estimate, clean).mean() + 0.1 * mask.mean()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    return loss.detach(), norm


if args.compile:
    step = torch.compile(step)

for i in range(args.steps):
    clean = chirps(8)
    loss, norm = step(clean + 0.3 * torch.randn_like(clean), clean)
    print(f"step {i} loss {loss.item():.4f} grad norm {norm.item():.3f}")

with torch.no_grad():
    clean = chirps(4)
    noisy = clean + 0.3 * torch.randn_like(clean)
    estimate, _ = model(noisy)
    print(f"SI-SDR before {si_sdr(noisy, clean).mean():.2f} dB, after {si_sdr(estimate, clean).mean():.2f} dB")
