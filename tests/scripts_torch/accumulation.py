"""Gradients accumulated over micro-batches, clipped, with the usual mixed-precision code that does nothing on a CPU."""

import argparse
import contextlib

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--accumulation-steps", type=int, default=4)
parser.add_argument("--max-norm", type=float, default=1.0)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(11)
device = "cuda" if torch.cuda.is_available() else "cpu"
use_amp = device == "cuda"
ctx = torch.autocast(device_type=device, dtype=torch.float16) if use_amp else contextlib.nullcontext()
scaler = torch.amp.GradScaler(device, enabled=use_amp)

model = nn.Sequential(
    nn.Linear(8, 24), nn.GroupNorm(4, 24), nn.SiLU(), nn.Linear(24, 24), nn.LayerNorm(24), nn.SiLU(), nn.Linear(24, 2)
).to(device)
param_count = sum(p.numel() for p in model.parameters())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.99))
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=lambda step: min(1.0, (step + 1) / 5))
x = torch.randn(64, 8, device=device)
y = torch.stack([x[:, :4].prod(1), x[:, 4:].amax(1)], dim=1)
print(f"{param_count} parameters")


def micro_step(xb, yb):
    with ctx:
        loss = F.l1_loss(model(xb), yb) / args.accumulation_steps
    scaler.scale(loss).backward()
    return loss.detach()


def update():
    scaler.unscale_(optimizer)
    grad_norm = nn.utils.clip_grad_norm_(model.parameters(), args.max_norm, error_if_nonfinite=True)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    return grad_norm


if args.compile:
    micro_step, update = torch.compile(micro_step), torch.compile(update)

for step in range(20):
    loss_accum = 0.0
    for xb, yb in zip(x[torch.randperm(64)].chunk(args.accumulation_steps), y.chunk(args.accumulation_steps)):
        loss_accum += micro_step(xb, yb)
    norm = update()
    scheduler.step()
    print(f"step {step:4d} | loss: {loss_accum.item():.6f} | norm: {norm:.4f} | lr {scheduler.get_last_lr()[0]:.4e}")
